"""`tilewright tiles`: each verb from the command line's arguments to files, output and exit status."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import FailedPage, Page, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import tile_id
from tilewright.data_gen.tiles_cli import add_parser
from tilewright.data_gen.urls import page_id

BASE = "https://example.com/"


def run(*arguments: object) -> int:
    """Exit status of `tilewright tiles ARGUMENTS`."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["tiles", *map(str, arguments)])
    try:
        options.action(options)
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def page_tiles(name: str, rows: int) -> list[Tile]:
    url = BASE + name
    image = Image.new("RGB", (40, 30), (len(name), rows, 0))
    places = [(page_id(url), url, name, row, 0, 0, 30 * row, 40, 30) for row in range(rows)]
    return [
        Tile(tile_id(place[0], place[3], 0), *place, encode_png(image), image_sha256(image), name, EVIDENCE)
        for place in places
    ]


EVIDENCE = {"infobox": 0, "table": 0, "list": 0, "paragraph": 5}


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[[str, dict[str, int]], Path]:
    """corpus("name", {page: rows}) -> a folder with store/ and pages.jsonl."""

    def make(folder: str, names: dict[str, int]) -> Path:
        tiles = sorted((tile for item in names.items() for tile in page_tiles(*item)), key=lambda tile: tile.tile_id)
        write_store(tmp_path / folder / "store", tiles)
        pages = [
            Page(page_id(BASE + name), BASE + name, name, "", "told", 40, 30 * rows, True, rows)
            for name, rows in names.items()
        ]
        write_jsonl(tmp_path / folder / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
        return tmp_path / folder

    return make


Corpus = Callable[[str, dict[str, int]], Path]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_verify_and_show(corpus: Corpus, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = corpus("a", {"one": 3, "two": 1})
    assert run("verify", folder) == 0 and "tiles 4" in capsys.readouterr().out
    assert run("show", folder) == 0 and BASE + "two" in capsys.readouterr().out
    wanted = page_tiles("one", 3)[1]
    assert run("show", folder, wanted.tile_id, "--save", tmp_path / "x.png") == 0
    assert json.loads(capsys.readouterr().out)["y_px"] == 30 and (tmp_path / "x.png").read_bytes() == wanted.image
    (folder / "pages.jsonl").write_text(
        (folder / "pages.jsonl").read_text().replace('"height_px": 90', '"height_px": 99')
    )
    assert run("verify", folder, "--json", "--no-images") == 1
    report = json.loads(capsys.readouterr().out)
    assert [problem["where"] for problem in report["problems"]] == [wanted.page_id]
    assert run("verify", folder) == 1 and wanted.page_id in capsys.readouterr().out


@pytest.mark.parametrize("layout", ["webdataset", "images"])
def test_export_and_import(corpus: Corpus, tmp_path: Path, layout: str) -> None:
    folder = corpus("a", {"one": 3, "two": 1})
    write_jsonl(folder / "failed.jsonl", [FailedPage("0" * 16, BASE + "bad", "hangs")])
    assert run("export", layout, folder, tmp_path / "out") == 0
    assert run("import", layout, tmp_path / "out", tmp_path / "back") == 0
    assert contents(tmp_path / "back") == contents(folder)
    (tmp_path / "out" / "pages.jsonl").unlink()
    assert run("import", layout, tmp_path / "out", tmp_path / "made") == 0
    pages = read_jsonl(tmp_path / "made" / "pages.jsonl", Page)
    assert {(page.title, page.height_px, page.tile_count) for page in pages} == {("one", 90, 3), ("two", 30, 1)}


def test_published(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = corpus("a", {"one": 3, "two": 1})
    assert run("export", "published", folder, tmp_path / "out", "--base-url", BASE) == 0
    assert run("import", "published", tmp_path / "out", tmp_path / "back", "--base-url", BASE) == 0
    assert list(TileStore.open(tmp_path / "back").tile_ids) == list(TileStore.open(folder).tile_ids)
    (tmp_path / "out" / "bad.png.tiles").mkdir()
    assert run("import", "published", tmp_path / "out", tmp_path / "again", "--base-url", BASE) == 1
    assert "bad.png.tiles: " in capsys.readouterr().err
    with pytest.raises(InputError, match="--base-url"):
        run("import", "published", tmp_path / "out", tmp_path / "none")


def test_edits_and_merge(corpus: Corpus, tmp_path: Path) -> None:
    folder, other = corpus("a", {"one": 3, "two": 1}), corpus("b", {"two": 2, "three": 2, "four": 1})
    keys = {name: page_id(BASE + name) for name in ("one", "two", "three", "four")}
    assert run("add", folder, other, "--pages", keys["four"], keys["three"]) == 0
    assert run("replace", folder, other, "--pages", keys["two"]) == 0
    assert run("remove", folder, keys["four"]) == 0
    assert run("verify", folder) == 0
    expected = corpus("expected", {"one": 3, "two": 2, "three": 2})
    assert run("merge", folder, "--out", tmp_path / "merged") == 0
    assert contents(tmp_path / "merged") == contents(expected)
    parts = [corpus("p", {"one": 3}), corpus("q", {"two": 2, "three": 2})]
    assert run("merge", *parts, "--out", tmp_path / "one") == 0
    assert contents(tmp_path / "one") == contents(expected)
    with pytest.raises(InputError, match="has no pages"):
        run("add", folder, other, "--pages", "0" * 16)
    with pytest.raises(InputError, match="there already"):
        run("add", folder, other)


def test_card(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    folder = corpus("a", {"one": 1})
    assert run("card", folder, "--name", "Mine", "--license", "cc0-1.0") == 0
    assert (folder / "store" / "README.md").read_text().startswith("---\nlicense: cc0-1.0\n")


def test_arguments_cost_no_imports() -> None:
    program = (
        "import sys, tilewright.data_gen.tiles_cli; print(sorted({'numpy', 'pyarrow', 'PIL'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
