"""Tiles made again from their pages; parts of a corpus merged; PDFs, pictures and archives through the render stage."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tilewright.cli import main
from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen import make_pages
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.render_again import render_again, source_of
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]
STYLE = "<!doctype html><style>body{margin:0;font:14px/20px 'Liberation Sans',sans-serif}p{margin:0}</style>"
PAGES = {str(number): STYLE + f"<p>page {number}</p>" * (40 * number + 1) for number in range(7)}


def render(pages: Path, out: Path, **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None} | options
    counts: dict[str, Any] = run_stage(STAGE, Config(pages=pages, out=out, **chosen))["counts"]
    return counts


@pytest.mark.parametrize("image_format", ["png", "webp", "jpeg"])
def test_pictures_neednt_be_kept(tmp_path: Path, write_pages: WritePages, image_format: str) -> None:
    pages = write_pages(tmp_path / "pages", PAGES)
    render(pages, tmp_path / "whole", image_format=image_format)
    render(pages, tmp_path / "light", image_format=image_format, keep_images=False)
    whole, light = TileStore.open(tmp_path / "whole"), TileStore.open(tmp_path / "light")
    assert list(whole.tile_ids) == list(light.tile_ids) and len(whole) > 10
    wanted = list(light.tile_ids)[1::4]
    with pytest.raises(InputError, match="image"):
        light.image(wanted[0])
    made = {tile.tile_id: tile for tile in render_again(tmp_path / "light", wanted, source_of(tmp_path / "light"))}
    assert made == {tile_id: whole.get(tile_id) for tile_id in wanted}


def test_other_pixels_and_lost_pages_are_named(
    tmp_path: Path, write_pages: WritePages, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = write_pages(tmp_path / "pages", {"a": PAGES["3"]})
    render(pages, tmp_path / "tiles")
    tile_id = TileStore.open(tmp_path / "tiles").tile_ids[1]
    main(["tiles", "render", str(tmp_path / "tiles"), tile_id, "--out", str(tmp_path / "images")])
    picture = (tmp_path / "images" / f"{tile_id}.png").read_bytes()
    assert image_sha256(decode_image(picture)) in capsys.readouterr().out
    document = pages / read_jsonl(pages / "pages.jsonl", Page)[0].html_path
    document.write_text(document.read_text().replace("page 3", "page 4"))
    with pytest.raises(SystemExit, match="has other pixels"):
        main(["tiles", "render", str(tmp_path / "tiles"), tile_id, "--out", str(tmp_path / "images")])
    document.unlink()
    with pytest.raises(InputError, match="wanted a file of this folder"):
        list(render_again(tmp_path / "tiles", [tile_id], source_of(tmp_path / "tiles")))
    with pytest.raises(InputError, match="say where it lies now"):
        source_of(tmp_path / "tiles", pages=tmp_path / "gone")
    with pytest.raises(InputError, match="no tile"):
        list(render_again(tmp_path / "tiles", ["0" * 16 + "-0000-00"], source_of(tmp_path / "tiles")))


def test_parts_merge_to_what_one_run_gives(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", PAGES | dict.fromkeys(("high", "higher"), PAGES["6"] * 9))
    tolerant: dict[str, Any] = {"max_tiles": 40, "max_page_height_px": 20_000, "max_error_share": 1.0}
    assert render(pages, tmp_path / "one", **tolerant)["failed"] == 2
    parts = [tmp_path / f"part-{number}" for number in range(3)]
    for number, out in enumerate(parts):
        render(pages, out, shard=f"{number}/3", workers=1, **tolerant)
    main(["tiles", "merge", *map(str, parts), "--out", str(tmp_path / "merged")])
    one, merged = output_digests(tmp_path / "one"), output_digests(tmp_path / "merged")
    assert merged == one and {"failed.jsonl", "pages.jsonl", "store/tile_ids.npy"} <= one.keys()
    main(["tiles", "verify", str(tmp_path / "merged")])


def test_parts_are_of_ids_not_of_places() -> None:
    ids = [page_id(f"https://example.com/{number}") for number in range(500)]
    for key in ids:
        assert sum(in_part(key, part_of(f"{number}/7")) for number in range(7)) == 1
    for wrong in ("3/3", "x", "1/0", "-1/2", "1"):
        with pytest.raises(ValueError, match="wanted i/n"):
            part_of(wrong)


def test_pictures_through_the_stage(tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    scan = Image.new("L", (1750, 4000), 255)
    ImageDraw.Draw(scan).rectangle((100, 3000, 1600, 3900), fill=0)
    scan.save(folder / "scan.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff not a picture")
    pages = tmp_path / "pages"
    settings: dict[str, Any] = {
        "path": folder,
        "base_url": "https://example.com/",
        "workers": 1,
        "max_error_share": 1.0,
    }
    run_stage(make_pages.STAGE, make_pages.Config(source="images", out=pages, **settings))
    counts = render(pages, tmp_path / "tiles", max_error_share=1.0)
    (page,) = read_jsonl(tmp_path / "tiles" / "pages.jsonl", Page)
    assert (page.width_px, page.height_px, page.complete, page.url) == (875, 2000, True, "https://example.com/scan.png")
    assert counts["tiles"] == 2 and counts["chromium"] == []
    store = TileStore.open(tmp_path / "tiles")
    assert store.image(store.tile_ids[1]).getpixel((400, 600)) == (0, 0, 0)


def test_two_processes_on_one_folder(tmp_path: Path, write_pages: WritePages) -> None:
    write_pages(tmp_path / "pages", PAGES)
    yaml = tmp_path / "run.yaml"
    yaml.write_text("kind: stage\npages: pages\nout: tiles\nworkers: 1\nmax_tiles: null\nmax_tiles_per_page: null\n")
    command = [sys.executable, "-m", "tilewright.data_gen.render_tiles", str(yaml)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 0], [0, 1])
    assert statuses == [0, 0] or any("another process is running this stage" in text for text in said)
    main(["tiles", "verify", str(tmp_path / "tiles")])
