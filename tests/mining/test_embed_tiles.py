"""Tile embedding: the encoder's own vectors, whatever the batches, kills and types of storage."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError, UserError
from tilewright.configs.stage import read_manifest, run_stage
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.mining import build_index as build_index_stage
from tilewright.mining.embed_tiles import STAGE, Config, embed_tiles, prefetch
from tilewright.mining.index import TileIndex
from tilewright.mining.vector_store import VectorStore
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.encoder_io import read_encoder_file
from tilewright.train.make_tiny_model import Config as TinyConfig
from tilewright.train.make_tiny_model import Pixels, make_tiny_model
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
TILES = 23


def _tile(number: int) -> Tile:
    image = synthetic_image(100 + 37 * (number % 5), 80 + 29 * (number % 7), number)
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    page_id = f"{number // 4:016x}"
    return Tile(
        tile_id=f"{page_id}-{number % 4:04d}-00",
        page_id=page_id,
        url=f"http://localhost/{page_id}",
        title="A page",
        row=number % 4,
        column=0,
        x_px=0,
        y_px=0,
        width_px=image.width,
        height_px=image.height,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=f"Text number {number} for the tokenizer, with words like Oslo, Lima and Quito.",
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 1},
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiles/ and tiny/embedder/."""
    folder = tmp_path_factory.mktemp("embed")
    write_store(folder / "tiles", [_tile(number) for number in range(TILES)])
    config = TinyConfig(
        out=folder / "tiny",
        embedder=Pixels(4096, 16384),
        reader=Pixels(4096, 16384),
        seed=5,
        tiles=folder / "tiles",
        vocab_size=400,
        hidden=64,
        vision_hidden=64,
        vision_layers=2,
        deepstack=(0,),
    )
    make_tiny_model(config, {"tiles": folder / "tiles"}, folder / "tiny")
    return folder


def _config(root: Path, out: Path, **changes: object) -> Config:
    options: dict[str, object] = {"block_tiles": 5, "batch_tokens": 40, "device": "cpu"}
    return Config(out=out, checkpoint=root / "tiny" / "embedder", tiles=root / "tiles", **(options | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vectors(root: Path) -> Path:
    run_stage(STAGE, _config(root, root / "vectors"))
    return root / "vectors"


def _array(folder: Path) -> np.ndarray[Any, Any]:
    store = VectorStore.open(folder)
    return store.rows(np.arange(len(store)))


def test_the_encoders_vectors_in_the_stores_order(root: Path, vectors: Path) -> None:
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(root / "tiles")
    wanted = encoder.encode_tiles([store.image(tile_id) for tile_id in store.tile_ids])
    stored = _array(vectors)
    assert list(VectorStore.open(vectors).tile_ids) == list(store.tile_ids)
    assert F.cosine_similarity(torch.from_numpy(stored), wanted).min() >= 0.99999
    assert read_encoder_file(vectors).hash == encoder.hash
    assert torch.equal(embed_tiles(encoder, store, block_tiles=5, batch_tokens=40), torch.from_numpy(stored))
    chosen = [store.tile_ids[i] for i in (20, 3, 11)]
    assert F.cosine_similarity(embed_tiles(encoder, store, chosen), wanted[[20, 3, 11]]).min() >= 0.99999
    assert torch.is_grad_enabled()


def test_counts(vectors: Path) -> None:
    manifest = read_manifest(vectors)
    assert manifest is not None
    counts = manifest["counts"]
    assert (counts["tiles"], counts["dimension"], counts["max_pixels"]) == (TILES, 64, 16384)
    assert counts["model"] == "tiny random weights"
    assert sorted(path.name for path in vectors.iterdir()) == [
        "encoder.json",
        "logs",
        "manifest.json",
        "vectors-00000.arrow",
        "vectors-00000.npy",
        "vectors.json",
    ]


@pytest.mark.parametrize("changes", [{"block_tiles": 100}, {"batch_tokens": 1}, {"workers": 5}, {"block_tiles": 1}])
def test_vectors_do_not_depend_on_the_batches(
    root: Path, vectors: Path, tmp_path: Path, changes: dict[str, int]
) -> None:
    run_stage(STAGE, _config(root, tmp_path / "out", **changes))
    found, wanted = (torch.from_numpy(_array(folder)) for folder in (tmp_path / "out", vectors))
    assert F.cosine_similarity(found, wanted).min() >= 0.99999
    if "workers" in changes:
        assert torch.equal(found, wanted)


def test_half_precision_storage(root: Path, vectors: Path, tmp_path: Path) -> None:
    run_stage(STAGE, _config(root, tmp_path / "out", dtype="float16"))
    assert VectorStore.open(tmp_path / "out").dtype == "float16"
    assert np.array_equal(_array(tmp_path / "out"), _array(vectors).astype(np.float16).astype(np.float32))


PROGRAM = """
import sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from tilewright.configs.stage import run_stage
from tilewright.mining import embed_tiles as stage
from tilewright.train.encoder import Encoder
root, out = Path(sys.argv[1]), Path(sys.argv[2])
forward = Encoder.forward
def slowly(self, batch):
    time.sleep(0.1)
    return forward(self, batch)
Encoder.forward = slowly
config = stage.Config(out=out, checkpoint=root / "tiny" / "embedder", tiles=root / "tiles", block_tiles=5,
                      batch_tokens=40, device="cpu")
run_stage(stage.STAGE, config)
"""


def test_killed_and_run_again_gives_the_same_bytes(
    root: Path, vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, journal = tmp_path / "out", tmp_path / "out.partial" / ".journal.jsonl"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(root), str(out)])
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = journal.read_bytes().count(b"\n")
    assert 2 <= finished < 5
    assert not out.exists()
    with journal.open("ab") as file:
        file.write(b'{"key": "0000')  # a kill in the middle of a line
    embedded: list[int] = []
    forward = Encoder.forward
    monkeypatch.setattr(
        Encoder,
        "forward",
        lambda self, batch: embedded.append(len(batch)) or forward(self, batch),  # type: ignore[func-returns-value]
    )
    run_stage(STAGE, _config(root, out))
    assert sum(embedded) == TILES - 5 * finished  # a finished block isn't embedded again
    assert output_digests(out) == output_digests(vectors)


def test_a_damaged_block_is_an_error(root: Path, tmp_path: Path) -> None:
    from tilewright.mining.embed_tiles import _read_block

    (tmp_path / "block.npy").write_bytes(b"x")
    with pytest.raises(UserError, match="a finished block is gone or damaged"):
        _read_block(tmp_path / "block.npy", "0" * 64)


def test_an_index_of_the_vectors(root: Path, vectors: Path, tmp_path: Path) -> None:
    config = build_index_stage.Config(out=tmp_path / "index", vectors=vectors)
    counts = run_stage(build_index_stage.STAGE, config)["counts"]
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(root / "tiles")
    index = TileIndex.load(tmp_path / "index")
    index.check_encoder(encoder.hash)
    assert counts["tiles"] == len(index) == TILES
    images = [store.image(tile_id) for tile_id in store.tile_ids]
    assert [hits[0][0] for hits in index.search(encoder.encode_tiles(images), 1)] == list(store.tile_ids)


def test_broken_weights_name_the_tile(root: Path) -> None:
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(root / "tiles")
    with torch.no_grad():
        encoder.model.get_parameter("language_model.norm.weight").fill_(float("inf"))
    with pytest.raises(InputError, match=rf"5 tiles have vectors with NaN or infinity \(first: {store.tile_ids[0]}"):
        embed_tiles(encoder, store, block_tiles=5)


def test_bad_input(root: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "none", [])
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(root / "tiles")
    with pytest.raises(InputError, match="no tiles to embed"):
        embed_tiles(encoder, TileStore.open(tmp_path / "none"))
    with pytest.raises(InputError, match="no tiles to embed"):
        embed_tiles(encoder, store, [])
    with pytest.raises(InputError, match="no tile 'other'"):
        embed_tiles(encoder, store, ["other"])
    with pytest.raises(ValueError, match="workers: wanted at least 1, found 0"):
        _config(root, tmp_path, workers=0)


def test_prefetch_keeps_order_runs_little_ahead_and_passes_errors_on() -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        if item == 6:
            raise InputError("six")
        return item * item

    results = prefetch(range(100), work, 2)
    assert next(results) == (0, 0)
    assert len(started) <= 3
    assert [next(results)[1] for _ in range(5)] == [1, 4, 9, 16, 25]
    with pytest.raises(InputError, match="six"):
        next(results)
    assert len(started) <= 10
    assert list(prefetch([], work, 2)) == []
