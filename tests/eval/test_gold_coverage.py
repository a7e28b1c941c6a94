"""Gold URLs against a corpus: spellings, redirects, what isn't there."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.urls import page_id
from tilewright.eval.gold_coverage import Redirects, gold_coverage

WIKI = "https://en.wikipedia.org/wiki/"
PAGES = {page_id(WIKI + name): WIKI + name for name in ("Paris", "Oslo", "Velmar_Bridge")}


def table(folder: Path, *entries: tuple[str, str]) -> Redirects:
    path = folder / "redirects.json"
    path.write_text("{" + ", ".join(f"{json.dumps(one)}: {json.dumps(other)}" for one, other in entries) + "}")
    return Redirects.read(path)


def test_spellings_of_a_gold_url_find_their_page() -> None:
    spellings = (
        f"{WIKI}paris#History",
        "http://en.wikipedia.org/wiki/Paris",
        "https://en.m.wikipedia.org/wiki/%50aris/",
    )
    for number, url in enumerate(spellings):
        found = gold_coverage({f"q{number}": (url,)}, PAGES)
        assert found.gold_pages == {f"q{number}": {page_id(WIKI + "Paris")}} and not found.outside
    assert not gold_coverage({"q": (f"{WIKI}paris_Hilton",)}, PAGES).gold_pages["q"]


def test_what_is_not_there_is_counted_and_listed() -> None:
    gold = {
        "all": (f"{WIKI}Paris", f"{WIKI}Oslo"),
        "some": (f"{WIKI}Paris", f"{WIKI}Rome"),
        "gone": (f"{WIKI}Rome", f"{WIKI}Bonn"),
        "none": (),
    }
    found = gold_coverage(gold, PAGES)
    assert found.outside == (("some", f"{WIKI}Rome"), ("gone", f"{WIKI}Rome"), ("gone", f"{WIKI}Bonn"))
    assert found.counts == {
        "questions_with_gold_url": 3,
        "questions_without_gold_url": 1,
        "questions_with_all_gold_outside_corpus": 1,
        "questions_with_some_gold_outside_corpus": 1,
        "gold_urls_outside_corpus": 2,
    }
    assert found.gold_pages["all"] == {page_id(WIKI + "Paris"), page_id(WIKI + "Oslo")}


def test_redirects_widen_what_is_found_in_both_directions(tmp_path: Path) -> None:
    redirects = table(
        tmp_path,
        (f"{WIKI}Lutetia", f"{WIKI}Paris"),
        (f"{WIKI}Old_Lutetia", f"{WIKI}Lutetia"),
        (f"{WIKI}Oslo", f"{WIKI}Kristiania"),
    )
    found = gold_coverage({"a": (f"{WIKI}old_Lutetia",), "b": (f"{WIKI}Kristiania",)}, PAGES, redirects)
    assert found.gold_pages == {"a": {page_id(WIKI + "Paris")}, "b": {page_id(WIKI + "Oslo")}}
    assert len(gold_coverage({"a": (f"{WIKI}old_Lutetia",)}, PAGES).outside) == 1


def test_two_pages_of_one_target_both_count(tmp_path: Path) -> None:
    redirects = table(tmp_path, (f"{WIKI}Oslo", f"{WIKI}Paris"))
    assert len(gold_coverage({"q": (f"{WIKI}Paris",)}, PAGES, redirects).gold_pages["q"]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"https://x.org/a": "https://x.org/b", "https://x.org/b": "https://x.org/a"}', "circle through x.org"),
        ('{"https://x.org/a": "https://x.org/b", "http://x.org/a/": "https://x.org/c"}', "leads to two pages"),
        ('{"https://x.org/a": "https://x.org/b", "https://x.org/a": "https://x.org/c"}', "leads to two pages"),
        ('{"a": "https://x.org/b"}', "wanted absolute addresses, found 'a'"),
        ('{"https://x.org/a": 3}', "wanted absolute addresses"),
        ('["https://x.org/a"]', "wanted a JSON object {address: address}"),
        ('"x"', "wanted a JSON object {address: address}"),
        ("[" * 100_000, "wanted a JSON object of addresses"),
        ("", "wanted a JSON object of addresses"),
    ],
)
def test_broken_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "redirects.json").write_text(text)
    with pytest.raises(InputError, match=rf"redirects\.json.*{message}"):
        Redirects.read(tmp_path / "redirects.json")
    with pytest.raises(InputError, match="wanted a JSON object of addresses"):
        Redirects.read(tmp_path / "none.json")


def test_a_page_may_redirect_to_itself(tmp_path: Path) -> None:
    assert not table(tmp_path, (f"{WIKI}A", f"{WIKI}a"), ("http://x.org/", "https://x.org")).targets


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_following_ends_or_says_circle(pairs: list[tuple[int, int]]) -> None:
    targets = {f"x.org/{one}": f"x.org/{other}" for one, other in pairs if one != other}
    redirects = Redirects(targets)
    for number in range(10):
        try:
            end = redirects.end_of(f"https://x.org/{number}")
        except InputError as error:
            assert "circle" in str(error)
        else:
            assert end not in targets
