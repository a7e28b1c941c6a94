"""Tile embedding: the encoder's own vectors, each picture once, whatever the batches and types of storage."""

import dataclasses
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.mining.embed_corpus import PICTURES, SAME, TILES, array, config, tile, write_tiles, write_tiny
from torch.nn import functional as F

from tilewright.configs.errors import InputError, UserError
from tilewright.configs.stage import read_manifest, run_stage
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.mining.embed_blocks import BlockFiles, prefetch
from tilewright.mining.embed_tiles import STAGE
from tilewright.mining.vector_store import VectorStore
from tilewright.mining.vector_writer import write_vector_store
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.encoder_io import read_encoder_file

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiles/, tiny/embedder/ and other/embedder/."""
    folder = tmp_path_factory.mktemp("embed")
    write_tiles(folder / "tiles")
    write_tiny(folder / "tiny", folder / "tiles", 5)
    write_tiny(folder / "other", folder / "tiles", 6)
    return folder


@pytest.fixture(scope="module")
def vectors(root: Path) -> Path:
    run_stage(STAGE, config(root, root / "vectors"))
    return root / "vectors"


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches of tiles that go through a model."""
    sizes: list[int] = []
    forward = Encoder.forward

    def counted(encoder: Encoder, batch: Any) -> torch.Tensor:
        if batch.patches is not None:
            sizes.append(len(batch))
        return forward(encoder, batch)

    monkeypatch.setattr(Encoder, "forward", counted)
    monkeypatch.setattr("tilewright.train.encoder_io._check_probes", lambda folder, encoder: None)
    return sizes


def test_the_encoders_vectors_in_the_stores_order(root: Path, vectors: Path) -> None:
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(root / "tiles")
    wanted = encoder.encode_tiles([store.image(tile_id) for tile_id in store.tile_ids])
    found = VectorStore.open(vectors)
    assert (found.encoder_hash, found.dtype, found.model_dtype) == (encoder.hash, "float32", "float32")
    assert read_encoder_file(vectors).hash == encoder.hash
    assert list(found.tile_ids) == list(store.tile_ids)
    assert list(found.image_hashes()) == [store.image_digest(tile_id) for tile_id in store.tile_ids]
    assert F.cosine_similarity(torch.from_numpy(array(vectors)), wanted).min() >= 0.999999
    assert [len(piece) for _, piece in found.shards()] == [10, 10, 6]
    found.verify()
    assert torch.is_grad_enabled()


def test_counts_and_nothing_but_vectors_on_disk(root: Path, vectors: Path) -> None:
    manifest = read_manifest(vectors)
    assert manifest is not None
    counts, encoder, store = (
        manifest["counts"],
        load_encoder(root / "tiny" / "embedder"),
        TileStore.open(root / "tiles"),
    )
    assert (counts["tiles"], counts["dimension"], counts["max_pixels"]) == (TILES, 64, 16384)
    assert counts["visual_tokens"] == sum(encoder.tokens(*store.size_px(tile_id)) for tile_id in store.tile_ids)
    assert (counts["embedded"], counts["reused"], counts["same_image"]) == (TILES - len(SAME), 0, len(SAME))
    assert counts["model"] == "tiny random weights"
    shards = [f"vectors-0000{number}.{kind}" for number in range(3) for kind in ("arrow", "npy")]
    assert sorted(path.name for path in vectors.iterdir()) == [
        "encoder.json",
        "logs",
        "manifest.json",
        *shards,
        "vectors.json",
    ]
    kept = sum(path.stat().st_size for path in vectors.rglob("*") if path.is_file())
    assert kept < TILES * (64 * 4 + 100) + 20_000, "as large as vectors and ids, without a picture"


def test_a_picture_is_embedded_once(root: Path, vectors: Path, tmp_path: Path, embedded: list[int]) -> None:
    run_stage(STAGE, config(root, tmp_path / "out"))
    assert sum(embedded) == len(set(PICTURES)) == TILES - len(SAME)
    found = array(tmp_path / "out")
    assert all(np.array_equal(found[number], found[first]) for number, first in SAME.items())
    assert np.array_equal(found, array(vectors))


@pytest.mark.parametrize(
    "changes", [{"block_tiles": 100}, {"batch_tokens": 1}, {"workers": 5}, {"block_tiles": 1}, {"window_blocks": 1}]
)
def test_vectors_do_not_depend_on_batches_and_windows(
    root: Path, vectors: Path, tmp_path: Path, changes: dict[str, int], embedded: list[int]
) -> None:
    run_stage(STAGE, config(root, tmp_path / "out", **changes))
    found, wanted = (torch.from_numpy(array(folder)) for folder in (tmp_path / "out", vectors))
    assert (found - wanted).abs().max() <= 1e-6
    if "workers" in changes:
        assert torch.equal(found, wanted)
    if "batch_tokens" in changes:
        assert embedded == [1] * len(set(PICTURES))


def test_half_precision_storage(root: Path, vectors: Path, tmp_path: Path) -> None:
    run_stage(STAGE, config(root, tmp_path / "out", dtype="float16"))
    assert VectorStore.open(tmp_path / "out").dtype == "float16"
    assert np.array_equal(array(tmp_path / "out"), array(vectors).astype(np.float16).astype(np.float32))


def test_what_is_known_is_taken_over(root: Path, vectors: Path, tmp_path: Path, embedded: list[int]) -> None:
    """Two tiles more, one picture gone, one moved to another tile: one new picture is embedded."""
    pictures = [*PICTURES, 99, 7]
    pictures[0], pictures[1] = pictures[1], 8
    write_tiles(tmp_path / "tiles", pictures)
    grown = config(root, tmp_path / "out", tiles=tmp_path / "tiles", reuse=(vectors,))
    counts = run_stage(STAGE, grown)["counts"]
    assert sum(embedded) == counts["embedded"] == 1
    assert counts["reused"] == len(set(pictures)) - 1
    assert counts["tiles"] == counts["embedded"] + counts["reused"] + counts["same_image"] == len(pictures)
    found, known = array(tmp_path / "out"), array(vectors)
    for number, picture in enumerate(pictures):
        if picture != 99:
            assert np.array_equal(found[number], known[picture])
    encoder, store = load_encoder(root / "tiny" / "embedder"), TileStore.open(tmp_path / "tiles")
    wanted = encoder.encode_tiles([store.image(store.tile_ids[TILES])])[0]
    assert np.abs(found[TILES] - wanted.numpy()).max() <= 1e-6


def test_another_checkpoint_embeds_all(root: Path, vectors: Path, tmp_path: Path, embedded: list[int]) -> None:
    other = config(root, tmp_path / "out", checkpoint=root / "other" / "embedder", reuse=(vectors,))
    counts = run_stage(STAGE, other)["counts"]
    assert sum(embedded) == counts["embedded"] == len(set(PICTURES))
    assert counts["reused"] == 0
    both = config(root, tmp_path / "both", checkpoint=root / "other" / "embedder", reuse=(vectors, tmp_path / "out"))
    assert run_stage(STAGE, both)["counts"]["reused"] == len(set(PICTURES))
    assert np.array_equal(array(tmp_path / "both"), array(tmp_path / "out"))


def test_coarser_vectors_and_those_computed_otherwise_are_not_taken_over(
    root: Path, vectors: Path, tmp_path: Path
) -> None:
    def reused(out: str, known: Path, **changes: Any) -> int:
        counts = run_stage(STAGE, config(root, tmp_path / out, reuse=(known,), **changes))["counts"]
        return int(counts["reused"])

    assert reused("half", vectors, dtype="float16") == len(set(PICTURES))
    assert reused("whole", tmp_path / "half") == 0
    assert reused("half_again", tmp_path / "half", dtype="float16") == len(set(PICTURES))
    assert np.array_equal(array(tmp_path / "half_again"), array(tmp_path / "half"))
    assert reused("bfloat16", vectors, model_dtype="bfloat16") == 0


def test_tiles_without_images_need_vectors_at_hand(root: Path, vectors: Path, tmp_path: Path) -> None:
    write_tiles(tmp_path / "bare", keep_images=False)
    with pytest.raises(InputError, match=r"24 tiles .* without their image \(first: 0{16}-0000-00\).*keep_images"):
        run_stage(STAGE, config(root, tmp_path / "out", tiles=tmp_path / "bare"))
    counts = run_stage(STAGE, config(root, tmp_path / "known", tiles=tmp_path / "bare", reuse=(vectors,)))["counts"]
    assert (counts["embedded"], counts["reused"]) == (0, 24)
    assert np.array_equal(array(tmp_path / "known"), array(vectors))


def test_few_pictures_are_in_memory_at_a_time(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tiles: those of the batches that are waiting, at work, or in the model."""
    alive, most, seen = Counter[str](), 0, 0
    read = TileStore.image

    def watched(store: TileStore, tile_id: str) -> Image.Image:
        nonlocal most, seen
        image = read(store, tile_id)
        alive["images"] += 1
        weakref.finalize(image, alive.subtract, ["images"])
        most, seen = max(most, alive["images"]), seen + 1
        return image

    monkeypatch.setattr(TileStore, "image", watched)
    run_stage(STAGE, config(root, tmp_path / "out", workers=2, batch_tokens=1))
    assert seen == len(set(PICTURES))
    assert most <= 2 + 2


def test_a_broken_image_in_the_middle_is_named(root: Path, tmp_path: Path) -> None:
    tiles = [tile(number, picture) for number, picture in enumerate(PICTURES)]
    tiles[13] = dataclasses.replace(tiles[13], image=tiles[13].image[:-60])
    write_store(tmp_path / "tiles", tiles)
    with pytest.raises(InputError, match=f"tile {tiles[13].tile_id}: wanted an encoded image"):
        run_stage(STAGE, config(root, tmp_path / "out", tiles=tmp_path / "tiles"))
    assert not (tmp_path / "out").exists()
    write_tiles(tmp_path / "tiles")
    with pytest.raises(UserError, match=r"holds another request:\n  inputs\.tiles"):  # finished blocks aren't lost
        run_stage(STAGE, config(root, tmp_path / "out", tiles=tmp_path / "tiles"))


def test_broken_weights_name_the_tile(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Encoder.forward

    def broken(encoder: Encoder, batch: Any) -> torch.Tensor:
        return forward(encoder, batch) * float("nan")

    monkeypatch.setattr(Encoder, "forward", broken)
    monkeypatch.setattr("tilewright.train.encoder_io._check_probes", lambda folder, encoder: None)
    store, encoder = TileStore.open(root / "tiles"), load_encoder(root / "tiny" / "embedder")
    window = [(encoder.tokens(*store.size_px(store.tile_ids[row])), row) for row in range(12)]
    smallest = store.tile_ids[min(window)[1]]
    with pytest.raises(InputError, match=rf"4 tiles have vectors with NaN or infinity \(first: {smallest}"):
        run_stage(STAGE, config(root, tmp_path / "out"))


def test_bad_input(root: Path, vectors: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "none", [])
    with pytest.raises(InputError, match="no tiles to embed"):
        run_stage(STAGE, config(root, tmp_path / "out", tiles=tmp_path / "none"))
    write_store(tmp_path / "odd", [dataclasses.replace(tile(0, 0), image_sha256="12")])
    with pytest.raises(InputError, match="image_sha256: wanted 64 hex characters, found '12'"):
        run_stage(STAGE, config(root, tmp_path / "out", tiles=tmp_path / "odd"))
    with pytest.raises(InputError, match="not a folder of vectors"):
        run_stage(STAGE, config(root, tmp_path / "out", reuse=(root / "tiles",)))
    for name, message in (("nan", "has NaN or infinity"), ("narrow", "wanted vectors of 64 dimensions, found 3")):
        known, space = VectorStore.open(vectors), read_encoder_file(vectors).hash
        made = np.full((1, 64), np.nan) if name == "nan" else np.ones((1, 3))
        hashes = [known.image_hashes()[5]]
        write_vector_store(tmp_path / name, ["other"], hashes, made.astype(np.float32), encoder_hash=space)
        with pytest.raises(InputError, match=message):
            run_stage(STAGE, config(root, tmp_path / f"of_{name}", reuse=(tmp_path / name,)))
    for key in ("block_tiles", "window_blocks", "batch_tokens", "shard_bytes", "workers"):
        with pytest.raises(ValueError, match=f"{key}: wanted at least 1, found 0"):
            config(root, tmp_path, **{key: 0})
    with pytest.raises(ValueError, match="shard: wanted i/n"):
        config(root, tmp_path, shard="2/2")


def test_a_damaged_block_is_an_error(tmp_path: Path) -> None:
    files = BlockFiles(tmp_path)
    for number in (3, 12):
        files.write(number, np.full((2, 2), number, np.float32))
    assert files.missing([2, 3, 12]) == [2]
    assert files.read(12)[0, 0] == 12
    path = next((tmp_path / ".blocks").glob("00000003-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    for number in (3, 4):
        with pytest.raises(UserError, match="a finished block is gone or damaged"):
            files.read(number)
    files.delete([12])
    assert files.missing([12]) == [12]
    files.wait_for([3])
    assert files.missing([12]) == [], "once all were there, deleted ones aren't missing"


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
