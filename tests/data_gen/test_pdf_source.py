"""Folders of PDFs as a source of pages: titles, dates, failures, kill and resume."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.data_gen.pdf_files import LETTER, SIZES, encrypted, pdf_of, text

from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.paged_documents import render_document
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.sources.pictures import PdfFolder, iso_date


def test_the_source_titles_dates_and_failures(written: Callable[..., Path], tmp_path: Path) -> None:
    info = b"<</Title(All of\nmoss)/ModDate(D:20240131120000+01'00')>>"
    (tmp_path / "in" / "sub").mkdir(parents=True)
    titled = pdf_of([(LETTER, text(b"Moss"))], info=info)
    (tmp_path / "in" / "sub" / "moss one.PDF").write_bytes(titled)
    (tmp_path / "in" / "plain.pdf").write_bytes(pdf_of([(LETTER, b"")]))
    (tmp_path / "in" / "secret.pdf").write_bytes(encrypted())
    (tmp_path / "in" / "empty.pdf").write_bytes(b"")
    (tmp_path / "in" / "notes.txt").write_text("no PDF")
    entries = list(PdfFolder(tmp_path / "in", "https://example.com/docs").entries(Counter()))
    assert [(entry.url, entry.title) for entry in entries] == [
        ("https://example.com/docs/empty.pdf", "empty"),
        ("https://example.com/docs/plain.pdf", "plain"),
        ("https://example.com/docs/secret.pdf", "secret"),
        ("https://example.com/docs/sub/moss one.PDF", "All of moss"),
    ]
    options = {"source": "pdf", "workers": 2, "path": tmp_path / "in", "base_url": "https://example.com/docs"}
    manifest = run_stage(STAGE, Config(out=tmp_path / "out", max_error_share=0.5, **options))
    assert (manifest["counts"]["pages"], manifest["counts"]["failed"]) == (2, 2)
    errors = (tmp_path / "out" / "logs" / "errors.jsonl").read_text()
    assert "encrypted" in errors and "0 bytes" in errors
    page = next(page for page in read_jsonl(tmp_path / "out" / "pages.jsonl", Page) if "moss" in page.url)
    assert page.html_path == f"documents/{page.page_id}.pdf" and page.fetched == "2024-01-31T11:00:00Z"
    stored = tmp_path / "out" / page.html_path
    assert page.content_sha256 == hashlib.sha256(titled).hexdigest() and stored.read_bytes() == titled
    assert [tile.text for tile in render_document(stored, page, SIZES).tiles] == ["Moss", ""]


def test_the_stage_survives_a_kill(
    tmp_path: Path, kill_once_journalled: Callable[[list[str], Path, int], None]
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(50):
        (tmp_path / "in" / f"{number:02d}.pdf").write_bytes(pdf_of([(LETTER, text(b"Page %d" % number))]))
    for name in ("killed", "whole"):
        config = f"kind: stage\nsource: pdf\nworkers: 2\npath: in\nbase_url: https://example.com/\nout: {name}\n"
        (tmp_path / f"{name}.yaml").write_text(config)
    kill_once_journalled(["tilewright.data_gen.make_pages", str(tmp_path / "killed.yaml")], tmp_path / "killed", 10)
    for name in ("killed", "whole"):
        run_stage(STAGE, load(tmp_path / f"{name}.yaml", Config))
    killed, whole = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("killed", "whole")
    )
    manifests = [json.loads(files.pop(Path("manifest.json"))) for files in (killed, whole)]
    assert manifests[0]["outputs"] == manifests[1]["outputs"] and manifests[0]["counts"] == manifests[1]["counts"]
    assert manifests[0]["counts"]["pages"] == 50
    assert {path for path in killed if path.parts[0] != "logs"} == {path for path in whole if path.parts[0] != "logs"}


def test_the_source_takes_one_file_and_names_what_it_lacks(written: Callable[..., Path], tmp_path: Path) -> None:
    path = written(pdf_of([(LETTER, b"")]))
    (entry,) = PdfFolder(path, "https://example.com/docs/").entries(Counter())
    assert entry.url == "https://example.com/docs/a.pdf"
    with pytest.raises(InputError, match="base_url: wanted the address"):
        PdfFolder(path, None)
    for wrong in (tmp_path / "none", written(b"", "notes.txt")):
        with pytest.raises(InputError, match="wanted a PDF"):
            PdfFolder(wrong, "https://example.com/")


@pytest.mark.parametrize(
    ("written_as", "iso"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T11:00:00Z"),
        ("D:20240131120000-0230", "2024-01-31T14:30:00Z"),
        ("D:20240131", "2024-01-31T00:00:00Z"),
        ("2024", "2024-01-01T00:00:00Z"),
        ("D:20240131120000Z", "2024-01-31T12:00:00Z"),
        ("D:20249931", ""),
        ("D:00010101000000+23'59'", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates(written_as: str, iso: str) -> None:
    assert iso_date(written_as) == iso
