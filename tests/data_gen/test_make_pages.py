"""make_pages as a stage: names by digest, clear errors for bad corpora, resumable to the byte."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from mwparserfromhell.parser import ParserError

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen import make_pages
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.sources import wiki_dump, wikitext
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.urls import page_id

Dump = Callable[..., Path]
ODD_TITLES = [
    "a/b",
    "../../etc/passwd",
    "..",
    'say "hi" & <b>',
    "it's",
    "🙂 emoji",
    "שלום עולם",
    "مرحبا",
    "100%",
    "x" * 240,
]


def dump_config(dump: Path, out: Path, **options: object) -> Config:
    return Config(source="wiki_dump", out=out, workers=2, path=dump, **options)  # type: ignore[arg-type]


def folder_config(folder: Path, out: Path, **options: object) -> Config:
    return Config(
        source="html_folder",
        out=out,
        workers=2,
        path=folder,
        base_url="https://x.org/",
        **options,  # type: ignore[arg-type]
    )


def test_pages_of_a_dump(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump(
        {
            "Ada": "{{Infobox person| name = Ada | born_in = [[London]]}}\n"
            "'''Ada''' <ref>r</ref>wrote\n* one\n* {{odd}}two",
            "R": "#REDIRECT [[Ada]]",
        }
    )
    manifest = run_stage(STAGE, dump_config(dump, tmp_path / "pages"))
    assert manifest["counts"] == {
        "pages": 1,
        "failed": 0,
        "resources": 0,
        "redirects": 1,
        "unknown_templates_removed": 1,
    }
    (page,) = read_jsonl(tmp_path / "pages" / "pages.jsonl", Page)
    identifier = page_id("https://en.wikipedia.org/wiki/Ada")
    path, digest = f"documents/{identifier}.html", page.content_sha256
    wanted = Page(identifier, "https://en.wikipedia.org/wiki/Ada", "Ada", path, "wiki_dump", content_sha256=digest)
    assert page == wanted and re.fullmatch("[0-9a-f]{64}", digest)
    html = (tmp_path / "pages" / page.html_path).read_text(encoding="utf-8")
    assert '<table class="infobox">' in html and "<strong>Ada</strong> wrote" in html and "<li>one</li>" in html
    assert "Liberation Sans" in html
    assert not re.search(r"<script|<link(?! rel=\"canonical\")|src=|url\(|@import|\{\{", html)


def test_odd_titles_are_only_text(write_dump: Dump, tmp_path: Path) -> None:
    run_stage(STAGE, dump_config(write_dump(dict.fromkeys(ODD_TITLES, "Body text.")), tmp_path / "pages"))
    pages = read_jsonl(tmp_path / "pages" / "pages.jsonl", Page)
    assert sorted(page.title for page in pages) == sorted(ODD_TITLES)
    assert [page.page_id for page in pages] == sorted(page_id(page.url) for page in pages)
    written = sorted(path.name for path in (tmp_path / "pages" / "documents").iterdir())
    assert written == [f"{page.page_id}.html" for page in pages]
    assert not (tmp_path / "etc").exists()
    page = next(page for page in pages if page.title.startswith("say"))
    assert "<h1>say &quot;hi&quot; &amp; &lt;b&gt;</h1>" in (tmp_path / "pages" / page.html_path).read_text()


def test_other_pages_never_change_an_id(write_dump: Dump, tmp_path: Path) -> None:
    few, many = {"B": "b", "C": "c"}, {"C": "c", "A": "a", "B": "b"}
    ids = []
    for name, pages in (("few", few), ("many", many)):
        run_stage(STAGE, dump_config(write_dump(pages, name=f"{name}.xml"), tmp_path / name))
        ids.append({page.title: page.page_id for page in read_jsonl(tmp_path / name / "pages.jsonl", Page)})
    assert ids[0].items() <= ids[1].items()


@pytest.mark.parametrize("pages", [{}, {"R": "#REDIRECT [[A]]"}, {"Talk:A": "x"}])
def test_empty_corpus(write_dump: Dump, tmp_path: Path, pages: dict[str, str]) -> None:
    with pytest.raises(InputError, match="no pages in this corpus"):
        run_stage(STAGE, dump_config(write_dump(pages), tmp_path / "pages"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no pages in this corpus"):
        run_stage(STAGE, folder_config(tmp_path / "empty", tmp_path / "other"))


def test_two_pages_with_one_url(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump({"ada Lovelace": "one", "Ada_Lovelace": "two", "B": "b"})
    with pytest.raises(InputError, match=r"wiki/Ada_Lovelace: title 'ada Lovelace' and title 'Ada_Lovelace'"):
        run_stage(STAGE, dump_config(dump, tmp_path / "pages"))
    manifest = run_stage(STAGE, dump_config(dump, tmp_path / "dropped", same_url="drop"))
    assert (manifest["counts"]["pages"], manifest["counts"]["dropped_same_url"]) == (2, 1)
    page = next(page for page in read_jsonl(tmp_path / "dropped" / "pages.jsonl", Page) if "Ada" in page.url)
    assert page.title == "ada Lovelace" and "one" in (tmp_path / "dropped" / page.html_path).read_text()


def test_two_files_with_one_url(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in ("first.html", "second.html"):
        (corpus / name).write_text('<link rel=canonical href="https://x.org/same"><p>x')
    with pytest.raises(InputError, match=r"first\.html and second\.html"):
        run_stage(STAGE, folder_config(corpus, tmp_path / "pages"))


def test_truncated_dump(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump({f"P{number}": "text " * 500 for number in range(20)})
    dump.write_bytes(dump.read_bytes()[:20_000])
    with pytest.raises(InputError, match="truncated or damaged"):
        run_stage(STAGE, dump_config(dump, tmp_path / "pages"))


def test_titles_and_max_pages_choose(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump(dict.fromkeys("ABCDE", "x"))
    run_stage(STAGE, dump_config(dump, tmp_path / "two", titles=("E", "B")))
    assert {page.title for page in read_jsonl(tmp_path / "two" / "pages.jsonl", Page)} == {"E", "B"}
    assert run_stage(STAGE, dump_config(dump, tmp_path / "three", max_pages=3))["counts"]["pages"] == 3
    with pytest.raises(InputError, match="no page is called"):
        run_stage(STAGE, dump_config(dump, tmp_path / "none", titles=("E", "F")))


def test_html_without_a_body_and_resources(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.html").write_text("<title>Only a head</title>")
    (corpus / "b.html").write_text("<img src=dot.png><img src=none.png>")
    (corpus / "dot.png").write_bytes(b"png")
    (corpus / "unasked.png").write_bytes(b"other")
    counts = run_stage(STAGE, folder_config(corpus, tmp_path / "pages"))["counts"]
    assert (counts["pages"], counts["resources"]) == (2, 1)
    head, body = (page_id(f"https://x.org/{name}.html") for name in "ab")
    folder, digest = PagesFolder(tmp_path / "pages"), sha256(b"png").hexdigest()
    assert folder.resources(f"documents/{head}.html") == {}
    table = folder.resources(f"documents/{body}.html")
    assert table == {"https://x.org/dot.png": {"sha256": digest, "media_type": "image/png"}}
    assert [path.name for path in (tmp_path / "pages" / "resources").rglob("*") if path.is_file()] == [digest]
    pages = {page.page_id: page for page in read_jsonl(tmp_path / "pages" / "pages.jsonl", Page)}
    assert pages[body].document_url == "https://x.org/b.html" and pages[body].fetched == ""
    assert pages[body].content_sha256 == sha256((corpus / "b.html").read_bytes()).hexdigest()


def test_a_missing_default_dump_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_pages, "default_dump", lambda: None)
    config = Config(source="wiki_dump", out=tmp_path / "pages", workers=1)
    with pytest.raises(InputError, match=r"tilewright\[quickstart\]"):
        run_stage(STAGE, config)


def test_missing_converters_say_what_to_install(
    write_dump: Dump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki_dump, "_CONVERTERS", ("mwparserfromhell", "no_such_converter"))
    with pytest.raises(InputError, match=r"needs no_such_converter: pip install tilewright\[quickstart\]"):
        run_stage(STAGE, dump_config(write_dump({"A": "a"}), tmp_path / "pages"))


def test_slow_pages_fail_and_are_counted(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump({"A": "a", "B": "b"})
    slow = dump_config(dump, tmp_path / "pages", page_timeout_s=0.001)
    with pytest.raises(StageError, match=r"2 of 2 items failed.*pandoc took more than 0\.001 s"):
        run_stage(STAGE, slow)
    allowed = dump_config(dump, tmp_path / "allowed", page_timeout_s=0.001, max_error_share=1.0)
    assert run_stage(STAGE, allowed)["counts"]["failed"] == 2


@pytest.mark.parametrize("kind", [ParserError, RecursionError])
def test_a_page_that_the_parser_fails_on_is_counted(
    write_dump: Dump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    parse = wikitext.mwparserfromhell.parse

    def parse_or_fail(text: str, **options: object) -> object:
        if text == "bad":
            raise kind("too odd")
        return parse(text, **options)

    monkeypatch.setattr(wikitext.mwparserfromhell, "parse", parse_or_fail)
    dump = write_dump({"A": "a", "B": "bad", "C": "c"})
    counts = run_stage(STAGE, dump_config(dump, tmp_path / "pages", max_error_share=0.5))["counts"]
    assert (counts["pages"], counts["failed"]) == (2, 1)
    errors = (tmp_path / "pages" / "logs" / "errors.jsonl").read_text()
    assert f"'B' can't be converted: {kind.__name__}: " in errors


def test_numbers_without_end_fail_their_page(write_dump: Dump, tmp_path: Path) -> None:
    dump = write_dump({"A": "a", "B": f"[[&#{'9' * 5000};|b]]", "C": f"{{{{birth date|{'9' * 5000}|1|1}}}} c"})
    counts = run_stage(STAGE, dump_config(dump, tmp_path / "pages", max_error_share=1.0))["counts"]
    assert (counts["pages"], counts["failed"]) == (2, 1)
    assert "'B' can't be converted: ValueError" in (tmp_path / "pages" / "logs" / "errors.jsonl").read_text()


def test_output_of_pandoc_that_is_no_utf8_fails_its_page(
    write_dump: Dump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pandoc"
    program.write_text("#!/bin/sh\nprintf '\\377'\n")
    program.chmod(0o755)
    monkeypatch.setattr(wikitext, "pandoc_path", lambda: str(program))
    config = dump_config(write_dump({"A": "a"}), tmp_path / "pages")
    with pytest.raises(StageError, match=r"1 of 1 items failed.*UnicodeDecodeError"):
        run_stage(STAGE, config)


def test_output_that_cannot_be_written(write_dump: Dump, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StageError, match="can't be written"):
        run_stage(STAGE, dump_config(write_dump({"A": "a"}), tmp_path / "file" / "pages"))
    with pytest.raises(StageError, match="no finished stage"):
        run_stage(STAGE, dump_config(write_dump({"A": "a"}), tmp_path / "file"))


def test_kill_and_resume_gives_the_same_bytes(
    write_dump: Dump, tmp_path: Path, kill_once_journalled: Callable[[list[str], Path, int], None]
) -> None:
    text = "{{Infobox x| genre = [[Y]]}}\n" + "'''Bold''' text with [[links]] and ''more''. " * 40
    dump = write_dump({f"Page {number}": text + str(number) for number in range(24)})
    yaml = tmp_path / "run.yaml"
    yaml.write_text(f"kind: stage\nsource: wiki_dump\nout: killed\nworkers: 2\npath: {dump}\n")
    kill_once_journalled(["tilewright.data_gen.make_pages", str(yaml)], tmp_path / "killed", 3)
    assert not (tmp_path / "killed").exists()
    journal = tmp_path / "killed.partial" / ".journal.jsonl"
    finished = journal.read_bytes().count(b"\n")
    assert 3 <= finished < 24
    journal.write_bytes(journal.read_bytes() + b'{"key": "torn')
    run_stage(STAGE, load(yaml, Config))
    whole = dump_config(dump, tmp_path / "whole")
    run_stage(STAGE, whole)
    assert output_digests(tmp_path / "killed") == output_digests(tmp_path / "whole")
    assert len(output_digests(tmp_path / "whole")) == 25
    lines = (tmp_path / "whole" / "logs" / "progress.jsonl").read_text().splitlines()
    assert lines and json.loads(lines[-1])["step"] == json.loads(lines[-1])["total"] == 24
