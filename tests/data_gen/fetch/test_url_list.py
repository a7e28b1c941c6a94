"""Lists of URLs, and the order that lets hosts take turns."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.fetch.url_list import Target, by_turns, read_url_list


def test_one_target_a_page(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    lines = [
        "https://b.example/x#one",
        "https://b.example/x#two",
        "HTTPS://B.example:443/%78",
        "https://a.example/\u00e4 b",
    ]
    path.write_text(
        "\ufeff# comment\r\n\r\n" + "\r\n".join(lines) + "\r\nhttps://en.m.wikipedia.org/wiki/ada", encoding="utf-8"
    )
    counts: Counter[str] = Counter()
    assert read_url_list(path, counts) == [
        Target("https://a.example/\u00e4 b", "https://a.example/%C3%A4%20b"),
        Target("https://b.example/x", "https://b.example/x"),
        Target("https://en.wikipedia.org/wiki/Ada", "https://en.m.wikipedia.org/wiki/ada"),
    ]
    assert counts == {"duplicates": 2, "fragments_dropped": 1}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True))
def test_hosts_take_turns(pages: list[tuple[str, int]]) -> None:
    targets = [Target(url, url) for url in (f"https://{host}.example/{number}" for host, number in sorted(pages))]
    ordered = by_turns(targets)
    assert sorted(ordered, key=lambda target: target.key) == targets
    seen: Counter[str] = Counter()
    rounds = []
    for target in ordered:
        seen[target.url[:9]] += 1
        rounds.append(seen[target.url[:9]])
    assert rounds == sorted(rounds)  # no host has its second turn before all had their first
