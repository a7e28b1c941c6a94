"""The workshop of an evaluation, opened from what its stage takes in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Inputs
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.cache import Cache
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.page_texts import Pages
from tilewright.eval.questions import Pool
from tilewright.eval.workshop import OcrConfig, Precision, Workshop


class Settings(Protocol):
    """What the configs of evaluations have in common."""

    @property
    def reader_checkpoints(self) -> Mapping[str, Checkpoint]: ...

    @property
    def ocr(self) -> OcrConfig: ...

    @property
    def cache(self) -> Path | None: ...

    @property
    def device(self) -> str: ...

    @property
    def precision(self) -> Precision: ...


def open_workshop(
    settings: Settings, inputs: Inputs, out: Path, checkpoints: Mapping[str, Checkpoint] | None = None
) -> Workshop:
    """Of ``inputs`` the tiles and, where they are given, the same as rendered, their documents and the dump of these.

    ``checkpoints``: of embedders. It has no questions yet. Raises InputError for a folder that can't be opened.
    """
    store = TileStore.open(inputs["tiles"])
    pool = Pool.of(store)
    pages = Pages.open(inputs["pages"], pool.tiles_of, inputs.get("dump")) if "pages" in inputs else None
    return Workshop(
        store=store,
        rendered=_rendered(inputs, store),
        pool=pool,
        questions=(),
        pages=pages,
        checkpoints=checkpoints or {},
        readers=settings.reader_checkpoints,
        ocr=settings.ocr,
        cache=Cache(settings.cache or out / ".cache"),
        out=out,
        device=settings.device,
        precision=settings.precision,
    )


def _rendered(inputs: Inputs, store: TileStore) -> TileStore:
    """The tiles that readers are given. Raises InputError for a searched tile that isn't among them."""
    if "rendered" not in inputs:
        return store
    rendered = TileStore.open(inputs["rendered"])
    missing = next((tile_id for tile_id in store.tile_ids if tile_id not in rendered), None)
    if missing is not None:
        raise InputError(f"rendered: tile {missing} of {store.folder} is not in {rendered.folder}: other tiles?")
    return rendered
