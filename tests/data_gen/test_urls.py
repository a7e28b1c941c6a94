"""One spelling per address: rules by table, idempotence and stability by property."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.urls import PAGE_ID, canonical_url, page_id, title_url

SAME = [
    ("HTTPS://En.Wikipedia.ORG:443/wiki/Alan_Turing", "https://en.wikipedia.org/wiki/Alan_Turing"),
    ("https://en.m.wikipedia.org/wiki/alan_Turing#Early_life", "https://en.wikipedia.org/wiki/Alan_Turing"),
    ("https://en.wikipedia.org/wiki/Alan Turing", "https://en.wikipedia.org/wiki/Alan_Turing"),
    ("https://en.wikipedia.org/wiki/Alan%20Turing", "https://en.wikipedia.org/wiki/Alan_Turing"),
    ("https://en.wikipedia.org/wiki/%C3%89mile_Zola", "https://en.wikipedia.org/wiki/Émile_Zola"),
    ("https://en.wikipedia.org/wiki/%c3%a9mile_Zola", "https://en.wikipedia.org/wiki/Émile_Zola"),
    ("https://en.wikipedia.org/wiki/C%23", "https://en.wikipedia.org/wiki/C%23"),
    ("https://en.wikipedia.org/wiki/What%3f", "https://en.wikipedia.org/wiki/What%3F"),
    ("https://en.wikipedia.org/wiki/AC%2fDC", "https://en.wikipedia.org/wiki/AC%2FDC"),
    ("https://en.wikipedia.org/wiki/100%25", "https://en.wikipedia.org/wiki/100%25"),
    ("https://en.wikipedia.org/wiki/100%", "https://en.wikipedia.org/wiki/100%25"),
    ("https://en.wikipedia.org/wiki/%%3225", "https://en.wikipedia.org/wiki/%25225"),
    ("https://en.wikipedia.org/wiki/100%2541", "https://en.wikipedia.org/wiki/100%2541"),
    ("http://example.com:80", "http://example.com/"),
    ("http://Example.com:8080/A%41b?q=a%20b#f", "http://example.com:8080/AAb?q=a%20b"),
    ("https://example.com/some page", "https://example.com/some page"),
    ("https://[2001:DB8::1]:443/x", "https://[2001:db8::1]/x"),
    ("file:///tmp/a%20b.html", "file:///tmp/a b.html"),
    ("https://example.com/a%20b", "https://example.com/a b"),
    ("https://example.com/a%20", "https://example.com/a%20"),
    ("https://example.com/a%0Ab%1f", "https://example.com/a%0Ab%1F"),
]
DIFFERENT = [
    ("https://example.com/a?x=1", "https://example.com/a?x=2"),
    ("https://en.wikipedia.org/wiki/Talk:Ada", "https://en.wikipedia.org/wiki/Ada"),
    ("https://en.wikipedia.org/wiki/Ada/Sub", "https://en.wikipedia.org/wiki/Ada"),
    ("https://en.wikipedia.org/wiki/AC/DC", "https://en.wikipedia.org/wiki/AC%2FDC"),
    ("https://example.com/ada", "https://example.com/Ada"),
    ("https://en.m.example.com/ada", "https://en.example.com/ada"),
    ("https://example.com/a b", "https://example.com/a_b"),
    ("http://example.com/", "https://example.com/"),
    ("https://en.wiktionary.org/wiki/apple", "https://en.wiktionary.org/wiki/Apple"),
    ("https://jbo.m.wikipedia.org/wiki/nu", "https://jbo.m.wikipedia.org/wiki/Nu"),
    ("https://en.wikipedia.org.evil.net/wiki/ada", "https://en.wikipedia.org.evil.net/wiki/Ada"),
]


@pytest.mark.parametrize(("url", "canonical"), SAME)
def test_spellings(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_what_stays_distinct(first: str, second: str) -> None:
    assert canonical_url(first) != canonical_url(second)
    assert page_id(first) != page_id(second)


def test_mediawiki_rules_hold_for_their_hosts_only() -> None:
    assert canonical_url("https://de.m.wiktionary.org/wiki/haus tür") == "https://de.wiktionary.org/wiki/haus_tür"
    assert canonical_url("https://en.wikipedia.org/w/index.php?title=ada") == (
        "https://en.wikipedia.org/w/index.php?title=ada"
    )


def test_page_id_is_the_digest_of_the_canonical_url() -> None:
    expected = hashlib.sha256(b"https://en.wikipedia.org/wiki/Alan_Turing").hexdigest()[:16]
    assert page_id("https://en.m.wikipedia.org/wiki/alan%20Turing#x") == expected
    assert PAGE_ID.fullmatch(expected)


@pytest.mark.parametrize(
    "url", ["", "wiki/Ada", "//host/path", "https://", "mailto:a@b", "http://host:99999/", "http://[x"]
)
def test_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="URL"):
        canonical_url(url)


HOSTS = st.sampled_from(
    [
        "en.wikipedia.org",
        "en.m.wikipedia.org",
        "m.wikipedia.org",
        "EXAMPLE.com",
        "a.b:80",
        "m.m.wikimedia.org",
        "en.wiktionary.org",
        "x:443",
    ]
)


@given(st.sampled_from(["http", "https", "HTTP"]), HOSTS, st.text(max_size=30), st.text(max_size=10))
def test_idempotent_on_any_text(scheme: str, host: str, path: str, query: str) -> None:
    try:
        once = canonical_url(f"{scheme}://{host}/wiki/{path}?{query}")
    except InputError:
        return
    assert canonical_url(once) == once


@given(
    HOSTS,
    st.lists(
        st.sampled_from(
            [
                "%25",
                "%2",
                "%",
                "F",
                "f",
                "2",
                "%C3",
                "%A9",
                "%5F",
                "_",
                " ",
                "%20",
                "/",
                "é",
                "%3f",
                "%32",
                "%41",
                "ß",
                "ŉ",
            ]
        )
    ),
)
def test_idempotent_on_escapes(host: str, parts: list[str]) -> None:
    once = canonical_url(f"https://{host}/wiki/{''.join(parts)}")
    assert canonical_url(once) == once


@given(st.text(min_size=1, max_size=40))
def test_title_addresses_are_canonical(title: str) -> None:
    try:
        url = title_url("https://en.wikipedia.org/wiki/", title)
    except InputError:
        return
    assert canonical_url(url) == url
    assert "#" not in url and "?" not in url


def test_titles_with_the_letters_of_addresses() -> None:
    urls = {
        title_url("https://en.wikipedia.org/wiki/", title) for title in ("C#", "C", "C?", "C/", "../C", "C%", "C 🙂")
    }
    assert len(urls) == 7
