"""Gold URLs, however a benchmark writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.urls import canonical_url
from tilewright.eval.benchmarks.addresses import gold_urls, title_urls

WIKI = "https://en.wikipedia.org/wiki/"


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("https://en.wikipedia.org//w/index.php?title=Velmar_Bridge&amp;oldid=837", [f"{WIKI}Velmar_Bridge"]),
        ("https://en.wikipedia.org/w/index.php?oldid=1&title=C%2B%2B", [f"{WIKI}C++"]),
        ("https://example.org/index.html?title=x", ["https://example.org/index.html?title=x"]),
        (f"see {WIKI}A_(b)), also\n{WIKI}c; ", [f"{WIKI}A_(b)", f"{WIKI}C"]),
        ("https://a.comhttps://b.com/x", ["https://a.com/", "https://b.com/x"]),
        ("https://web.archive.org/web/2020/https://x.org/y", ["https://web.archive.org/web/2020/https://x.org/y"]),
        (f"{WIKI}Paris,_Texas", [f"{WIKI}Paris,_Texas"]),
        (f"{WIKI}Washington,_D.C.#History", [f"{WIKI}Washington,_D.C."]),
        ("HTTPS://en.m.wikipedia.org/wiki/ora%20fen", []),
    ],
)
def test_spellings(text: str, urls: list[str]) -> None:
    found, unusable = gold_urls([text])
    assert list(found) == urls and unusable == (not urls)


def test_what_is_no_address_is_counted_and_blank_is_nothing() -> None:
    assert gold_urls(["", "  ", "n/a", "https://", f"{WIKI}A", f"{WIKI}A"]) == ((f"{WIKI}A",), 2)


@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_text_gives_canonical_addresses(texts: list[str]) -> None:
    found, unusable = gold_urls([*texts, *(f"https://h.org/{text}" for text in texts)])
    assert len(set(found)) == len(found) and 0 <= unusable <= 2 * len(texts)
    assert all(canonical_url(url) == url for url in found)


def test_titles() -> None:
    assert title_urls(["Ernie &amp; Bert", "AC/DC", "ernie & Bert", "", "50% Grey?"]) == (
        f"{WIKI}Ernie_&_Bert", f"{WIKI}AC/DC", f"{WIKI}50%25_Grey%3F",
    )  # fmt: skip
