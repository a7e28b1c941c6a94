"""The benchmark of nano measures the vectors that the encoder makes; as a whole it runs on a sample of the corpus."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from tilewright.data_gen.characters import CHARACTERS, Characters, CharacterTable, page_file, write_page, write_table
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import QAPair, Tile
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train.encoder import load_encoder
from tilewright.train.nano import NanoConfig, NanoModel
from tilewright.train.nano_characters import trigrams_of
from tilewright.train.nano_folder import write_nano

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WORDS = (("alpha", "beta"), ("gammagamma", "delta"))
SIZE = (500, 330)  # of a tile: more than one window either way

torch.set_num_threads(1)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """nano_parts.vectors and nano_parts.ranking, which aren't in the package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from nano_parts import ranking, vectors

    return vectors, ranking


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[TileStore, CharacterTable]:
    """Two tiles with two words each, 12 px a character: the second word lies in the last window of the tile."""
    folder = tmp_path_factory.mktemp("corpus")
    tiles, work = [], folder / "work"
    work.mkdir()
    for number, words in enumerate(WORDS):
        image = Image.new("RGB", SIZE, "white")
        places = ((20, 20), (400, 300))
        for word, place in zip(words, places, strict=True):
            ImageDraw.Draw(image).text(place, word, fill="black")
        page_id, text = f"{number:016x}", "".join(words)
        tile_id = f"{page_id}-0000-00"
        centres = [(x + 12 * i, y) for word, (x, y) in zip(words, places, strict=True) for i in range(len(word))]
        firsts = np.array([i == 0 for word in words for i in range(len(word))])
        codes = np.array(list(map(ord, text)), np.uint32)
        characters = Characters(
            codes, np.array(centres, np.float32), np.full(len(text), 10, np.float32), firsts, firsts
        )
        write_page(page_file(work, page_id), {tile_id: characters})
        evidence = {"infobox": 0, "table": 0, "list": 0, "paragraph": 0}
        place = (0, 0, 0, 0, *SIZE, encode_png(image), image_sha256(image))
        tiles.append(Tile(tile_id, page_id, "http://localhost", "Title", *place, " ".join(words), evidence))
    write_store(folder / "store", tiles)
    store = TileStore.open(folder / "store")
    write_table(folder / CHARACTERS, store, work)
    return store, CharacterTable.open(folder, store)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    write_nano(NanoModel(NanoConfig()).eval(), folder, name="random", dtype=torch.float32)
    return folder


def test_vectors_are_those_of_the_encoder(
    parts: Any, corpus: tuple[TileStore, CharacterTable], model_folder: Path, tmp_path: Path
) -> None:
    vectors, _ = parts
    store, table = corpus
    model, encoder = NanoModel.from_pretrained(model_folder).float().eval(), load_encoder(model_folder)
    bindings = vectors.bindings_of(model, [model.config.dimension, 256])
    score, found = vectors.read_tiles(model, bindings, store, table, 1.0)
    wanted = encoder.encode_tiles([store.image(tile_id) for tile_id in store.tile_ids])
    torch.testing.assert_close(found.of(f"tile/{model.config.dimension}"), wanted, atol=1e-5, rtol=1e-4)
    assert score.characters == sum(len(word) for words in WORDS for word in words)
    crops = torch.cat(found.owners).bincount().tolist()
    assert found.of("crops/256").shape == (sum(crops), 256) and min(crops) >= 4
    queries = ["alpha beta?", "Delta 12"]
    own = vectors.query_vectors(bindings[model.config.dimension], queries)
    torch.testing.assert_close(own, encoder.encode_queries(queries), atol=1e-5, rtol=1e-4)
    vectors.save_reading(tmp_path / "kept.npz", score, found)
    again_score, again = vectors.load_reading(tmp_path / "kept.npz")
    assert again_score == score and all(torch.equal(again.of(name), found.of(name)) for name in found.found)
    assert torch.equal(torch.cat(again.owners), torch.cat(found.owners))


def test_a_perfect_reader_finds_words_by_tile_and_by_crop(
    parts: Any, corpus: tuple[TileStore, CharacterTable], model_folder: Path
) -> None:
    vectors, ranking = parts
    store, table = corpus
    model = NanoModel.from_pretrained(model_folder).float()
    bindings = vectors.bindings_of(model, [2048])
    found = vectors.perfect_vectors(model, bindings, store, table)
    torch.testing.assert_close(found.of("tile/2048"), found.of("text/2048"))
    trigrams = [torch.from_numpy(trigrams_of(store.light(tile_id).text)) for tile_id in store.tile_ids]
    owners = torch.repeat_interleave(torch.arange(2), torch.tensor([len(part) for part in trigrams]))
    direct = torch.nn.functional.normalize(bindings[2048].of_texts(torch.cat(trigrams), owners, 2), dim=-1)
    torch.testing.assert_close(found.of("text/2048"), direct)
    empty = ("", (), "", "", "", "", "", "")
    ids = list(store.tile_ids)
    queries = [QAPair(word, word, *empty) for words in WORDS for word in words]
    for name in ("tile/2048", "crops/2048"):
        hits = ranking.vector_hits(queries, bindings[2048], found, name, ids)
        assert [hits[query.query_id][0][0] for query in queries] == [ids[0], ids[0], ids[1], ids[1]]
    alone = vectors.query_vectors(bindings[2048], ["delta"])
    scores = ranking.best_of(alone @ found.of("crops/2048").T, torch.cat(found.owners), 2)
    assert scores[0, 1] == pytest.approx(1.0, abs=1e-4), "a word alone in its crop is all of its vector"


def test_best_of_is_the_greatest_of_each_owner(parts: Any) -> None:
    scores = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    owners = torch.tensor([2, 0, 0, 2, 1, 2, 0])
    wanted = [[max(row[i] for i in range(7) if owners[i] == owner) for owner in range(3)] for row in scores.tolist()]
    assert parts[1].best_of(scores, owners, 3).tolist() == wanted


@pytest.mark.slow
@pytest.mark.browser
def test_the_benchmark_runs_on_a_sample(model_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "nano.py"), "--model", str(model_folder), "--runs", str(tmp_path)]
    command += ["--max-tiles", "12", "--rounds", "1", "--only", "reading", "speed", "--dimensions", "1024"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["tiles"] == 12 and set(found["reading"]) == {"1", "4"}
    for part in found["retrieval"].values():
        assert part["queries"] > 0 and set(part["rows"]) == {
            f"{source}/{name}/1024"
            for source, names in (("read", "tile crops"), ("read@4", "tile crops"), ("true", "tile crops text"))
            for name in names.split()
        }
        assert part["rows"]["true/text/1024"]["recall@1"]["value"] > 0.5
        assert part["ratios"]["read/tile/1024"]["against"] == "true/text/1024"
