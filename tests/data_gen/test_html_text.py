"""Which encoding a page is in, as browsers decide it, and what its head says."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS  # type: ignore[import-untyped]

from tilewright.data_gen.sources.html_text import _codec, decode_html, read_head


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
        *((JAPANESE[:3].encode("cp932"), label, JAPANESE[:3]) for label in ("x-sjis", "Windows-31J", "MS_Kanji")),
        (b"<meta charset=x-sjis>" + JAPANESE.encode("cp932"), "", JAPANESE),
        (b"<meta charset=x-euc-jp>" + JAPANESE[:3].encode("euc_jp"), "", JAPANESE[:3]),
        (b"<meta charset=x-gbk>" + "漢字".encode("gbk"), "", "漢字"),
        (b"<meta charset=windows-949>" + "똠방각하".encode("cp949"), "", "똠방각하"),
        (b"<meta charset=x-cp1251>" + "Привет".encode("cp1251"), "", "Привет"),
        (b"<meta charset=x-mac-cyrillic>" + "Привет".encode("mac_cyrillic"), "", "Привет"),
        (b"<meta charset=iso-8859-8-i>" + "שלום".encode("iso8859-8"), "", "שלום"),
        (b"<meta charset=unicode>" + "é".encode(), "", "é"),
        ("é".encode("utf-16-le"), "unicode", "é"),
        ('<?xml version="1.0" encoding="iso-8859-15"?>€'.encode("iso8859-15"), "", "€"),
    ],
)
def test_header_bom_and_meta(data: bytes, charset: str, text: str) -> None:
    assert decode_html(data, charset).endswith(text)


def test_every_name_of_the_encoding_standard_is_known() -> None:
    none = {"replacement", "iso-2022-cn", "iso-2022-cn-ext", "x-user-defined"}  # no text, or what Python can't read
    letters = b"plain ASCII"
    for label, name in LABELS.items():
        codec = _codec(label)
        assert bool(codec) == (label not in none), label
        if codec and not codec.startswith("utf-16"):
            assert letters.decode(codec) == "plain ASCII", (label, name)


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_bytes_are_some_text(data: bytes, charset: str) -> None:
    decode_html(data, charset).encode("utf-8", "surrogatepass")


def test_a_head_that_is_no_head() -> None:
    assert (read_head("<![foo bar[").title, read_head("").canonical) == ("", "")
    assert read_head("<title>A</title><p title='&#" + "9" * 5000 + ";'>").title == "A"  # more digits than Python reads
    assert read_head("<h1>A</h1><title>B</title><title>C</title>").title == "B"
