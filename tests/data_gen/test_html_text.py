"""Which encoding a page is in, as browsers decide it, and what its head says."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.sources.html_text import decode_html, read_head


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="utf-8"><p>Größe €</p>'.encode(),
        "<p>Größe €</p>".encode(),
        '<meta charset="windows-1252"><p>Größe €</p>'.encode("cp1252"),
        "<meta charset=ISO-8859-1><p>Größe €</p>".encode("cp1252"),
        '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-15"><p>Größe €</p>'.encode("iso8859-15"),
        codecs.BOM_UTF8 + '<meta charset="latin-1"><p>Größe €</p>'.encode(),
        codecs.BOM_UTF16_LE + "<p>Größe €</p>".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "<p>Größe €</p>".encode("utf-16-be"),
        "<p>Größe €</p>".encode("cp1252"),
        '<meta charset="no-such-thing"><p>Größe €</p>'.encode(),
        '<meta charset="utf-16"><p>Größe €</p>'.encode(),
    ],
)
def test_encodings(data: bytes) -> None:
    assert "Größe €" in decode_html(data)


JAPANESE = "日本語①"  # the last one is in Windows' Shift_JIS only


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("é".encode(), "utf-8", "é"),
        ("é".encode("latin-1"), "ISO-8859-1", "é"),
        ("€".encode("cp1252"), "latin1", "€"),
        ("<meta charset=utf-8>é".encode("latin-1"), "iso-8859-1", "<meta charset=utf-8>é"),  # the header outranks
        (codecs.BOM_UTF8 + "é".encode(), "iso-8859-1", "é"),  # and is outranked by a BOM
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "utf-8", "é"),
        (JAPANESE.encode("cp932"), "Shift_JIS", JAPANESE),
        (JAPANESE.encode("euc_jis_2004"), "euc-jis-2004", JAPANESE),
        ("漢字".encode("gb18030"), "gb2312", "漢字"),
        ("é".encode("utf-16-be"), "utf-16be", "é"),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"a\xc3", "", "aÃ"),
        ("é".encode(), '"utf-8"', "é"),
        *(("é".encode(), label, "é") for label in ("", "none", "hex", "rot13", "undefined", "utf-7", "x" * 99, "a\0b")),
        ("<!-- <meta charset=latin-1> --><meta charset=utf-8>é".encode(), "", "<meta charset=utf-8>é"),
        ('<?xml version="1.0" encoding="iso-8859-15"?>€'.encode("iso8859-15"), "", "€"),
    ],
)
def test_header_bom_and_meta(data: bytes, charset: str, text: str) -> None:
    assert decode_html(data, charset).endswith(text)


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_bytes_are_some_text(data: bytes, charset: str) -> None:
    decode_html(data, charset).encode("utf-8", "surrogatepass")


def test_a_head_that_is_no_head() -> None:
    assert (read_head("<![foo bar[").title, read_head("").canonical) == ("", "")
    assert read_head("<h1>A</h1><title>B</title><title>C</title>").title == "B"
