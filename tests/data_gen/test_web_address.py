"""Addresses as browsers spell them: the browser itself is the second formula."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.sources.web_address import web_address

BASES = ["https://host.example/dir/page.html?q=1", "http://host.example:8080/", "http://h.example/a//b/"]
REFERENCES = [
    *("a b.png", "ä b.png", "%C3%A4", "/x", "//other.example/y", "?z=1", "a//b", "a/./b/../c", "%2e%2e/x", ".%2E"),
    *("..", "../..", "../../../x/.", "./", "a\\b", "\\\\other.example\\x", "http:foo", "https:foo", "https:/foo"),
    *("https:///foo", "///foo/bar", "HTTP://HOST.Example:80/X", "https://h.example:443/x", "https://h.example"),
    *("https://bücher.example/ü?ü='\"<>`{}^|", 'x^y`{}|[]"<>', "a?b?c", "a%zz", "a\tb\nc", "  a  ", "a#f", "a#f?g"),
    *("https://h.example?x", "a:b", "./a:b", "data:text/plain,x", "javascript:1", "https://h.example:99999/"),
    *("https://[::1]:8/x", "https://h.example:/x", "a;b,c=d&e@f!g$h*i+j(k)l'm~n", "https://ExAmple.com/%7Efoo/%2F"),
    *("😀.png?😀", "https://faß.example/", "//", "https://", "https://h.example//a//..//b", "https://a_b.example/"),
    *("x?a b%20c", "\x01a\x02", "https://h.example:x/", "file:///etc/passwd", "mailto:a@b.example", "ftp://h.example/"),
]
IN_BROWSER = """
pairs => pairs.map(([base, reference]) => {
  try {
    const url = new URL(reference, base);
    url.hash = "";
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : "";
  } catch { return ""; }
})
"""


@pytest.mark.browser
def test_every_address_is_spelled_as_chromium_does(start_chromium: Any) -> None:
    async def ask(pairs: list[tuple[str, str]]) -> Any:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            browser = await start_chromium(playwright)
            return await (await browser.new_page()).evaluate(IN_BROWSER, pairs)

    pairs = [(base, reference) for base in BASES for reference in REFERENCES]
    ours = [web_address(base, reference) for base, reference in pairs]
    assert dict(zip(pairs, ours, strict=True)) == dict(zip(pairs, asyncio.run(ask(pairs)), strict=True))


@pytest.mark.parametrize("reference", ["", "#x", " ", "https://user@h.example/", "https://user:secret@h.example/x"])
def test_what_is_never_asked_for(reference: str) -> None:
    assert web_address("https://h.example/", reference) == ""


def test_without_a_base_only_absolute_ones() -> None:
    assert web_address("", "HTTPS://H.example/ä") == "https://h.example/%C3%A4"
    assert web_address("", "a.png") == web_address("", "//h.example/a.png") == ""


@given(st.sampled_from(BASES), st.text(max_size=40))
def test_spelling_is_idempotent_and_ascii(base: str, reference: str) -> None:
    address = web_address(base, reference)
    assert web_address("", address) == address
    assert address.isascii() and "#" not in address and " " not in address
