"""The weights that ship: they read a page in a real Chromium, find pages by their words, and are what they are said."""

import json
from importlib import resources
from pathlib import Path

import pytest
import torch

from tilewright.configs.stage import run_stage
from tilewright.data_gen import render_tiles
from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.records import Page, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id
from tilewright.train import make_nano
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.nano import NanoModel
from tilewright.train.nano_scores import score_store

pytestmark = pytest.mark.browser
SHIPPED = resources.files("tilewright.train") / make_nano.WEIGHTS
NAMES = ("nano", "nano-full")
MOST_BYTES = 20 * 2**20
PAGES = {
    "Lighthouse": "The keeper of Brannock lighthouse lit the paraffin lamp at dusk. Its beam reached 21 miles, and"
    " ships bound for Port Ellery steered by it until 1874, when fog signals were added. ",
    "Beekeeping": "A colony of honeybees keeps its brood near 35 degrees. Foragers dance to tell where clover blooms,"
    " and a careful beekeeper leaves enough honey in the hive to last the winter. ",
    "Typewriter": "Early typewriters struck the paper from below, so a typist could not see the words. Christopher"
    " Sholes arranged the keys in 1873 to keep the typebars from jamming. ",
    "Glacier": "Glaciers carve valleys as they slide. Meltwater carries rock flour into lakes and turns them turquoise;"
    " moraines of gravel mark where the ice once stood for centuries. ",
}
QUERIES = {
    "Lighthouse": "Which lamp did the keeper of Brannock light?",
    "Beekeeping": "where do foragers dance for clover",
    "Typewriter": "Christopher Sholes typebars jamming",
    "Glacier": "turquoise lakes, rock flour",
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pages of plain text in the browser's own style, with the place of every character."""
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "pages/html").mkdir(parents=True)
    records = []
    for title, text in PAGES.items():
        url = f"https://example.com/{title}"
        path = f"html/{title}.html"
        html = f"<!doctype html><meta charset=utf-8><h1>{title}</h1>" + f"<p>{text}</p>" * 3
        (folder / "pages" / path).write_text(html, encoding="utf-8")
        records.append(Page(page_id(url), url, title, path, "html_folder"))
    write_jsonl(folder / "pages/pages.jsonl", records)
    config = render_tiles.Config(
        out=folder / "tiles",
        pages=folder / "pages",
        workers=1,
        max_tiles=None,
        max_tiles_per_page=None,
        characters=True,
    )
    run_stage(render_tiles.STAGE, config)
    return folder / "tiles"


def encoder_of(tmp_path: Path, name: str, compression: float = 1.0) -> Encoder:
    config = make_nano.Config(tmp_path / "out", name, compression)  # type: ignore[arg-type]
    run_stage(make_nano.STAGE, config)
    return load_encoder(config.out / make_nano.FOLDER)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_and_say_what_made_them(name: str) -> None:
    with resources.as_file(SHIPPED) as folder:
        files = [path for path in (folder / name).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < MOST_BYTES / len(NAMES)
        assert "lexical reader" in (folder / name / "README.md").read_text(encoding="utf-8")
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["request"]["stage"] == "pretrain_nano" and name in manifest["counts"]["phases"]


def test_nano_reads_and_so_does_nano_full(rendered: Path) -> None:
    store = TileStore.open(rendered)
    table = CharacterTable.open(rendered, store)
    with resources.as_file(SHIPPED) as folder:
        for name, compression, least in (("nano", 1.0, 0.91), ("nano", 4.0, 0.85), ("nano-full", 1.0, 0.93)):
            model = NanoModel.from_pretrained(folder / name, dtype=torch.float32).eval()
            figures = score_store(model, store, table, range(len(store)), compression).figures()
            assert figures["character_recall"] >= least, (name, compression, figures)


@pytest.mark.parametrize("compression", [1.0, 4.0])
def test_questions_find_the_page_that_has_their_words(rendered: Path, tmp_path: Path, compression: float) -> None:
    from tilewright.train.compress import compress

    store = TileStore.open(rendered)
    titles = [store.get(tile_id).title for tile_id in store.tile_ids]
    encoder = encoder_of(tmp_path, "nano", compression)
    tiles = encoder.encode_tiles([compress(store.image(tile_id), compression) for tile_id in store.tile_ids])
    found = (encoder.encode_queries([QUERIES[title] for title in titles]) @ tiles.T).argmax(1)
    assert [titles[index] for index in found.tolist()] == titles
