"""Text of tile pictures by tesseract, through pytesseract: journalled per tile; a failed tile is counted, not empty."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytesseract
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.tools import MissingToolError

_PREFIX = "ocr/"  # of journal keys: other parts of a stage share the journal


def require_tesseract(language: str) -> str:
    """The installed tesseract's version. Raises MissingToolError saying what to install."""
    try:
        version = str(pytesseract.get_tesseract_version())
        languages = pytesseract.get_languages()
    except (pytesseract.TesseractNotFoundError, OSError) as error:
        raise MissingToolError(
            "tesseract is not installed: `apt-get install tesseract-ocr` (or set missing_tool: not_run)"
        ) from error
    missing = sorted(set(language.split("+")) - set(languages))
    if missing:
        raise MissingToolError(
            f"tesseract {version} lacks the language {missing[0]!r}, it has {languages}:"
            f" install tesseract-ocr-{missing[0]}"
        )
    return version


def ocr_image(image: Image.Image, *, language: str, scale: float, timeout_s: float) -> str:
    """Text that tesseract reads on ``image``, enlarged ``scale`` times before. Raises ItemError if it fails."""
    image = image.convert("L")  # as tesseract sees it anyway
    if scale != 1.0:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    image.format = "PPM"  # pytesseract hands pictures over as files: uncompressed is quickest
    try:
        return str(pytesseract.image_to_string(image, lang=language, config="--oem 1 --psm 3", timeout=timeout_s))
    except pytesseract.TesseractNotFoundError:
        raise
    except (RuntimeError, OSError, ValueError) as error:
        raise ItemError(f"{type(error).__name__}: {error}") from error


def ocr_tiles(
    store: TileStore, out: Path, *, language: str, scale: float, processes: int, timeout_s: float
) -> tuple[dict[str, str], dict[str, str]]:
    """({tile_id: text}, {tile_id: kind of failure}) of all tiles; details of failures are in ``out/logs``.

    At most ``processes`` tesseract processes at a time, of one thread each. Finished tiles stay in ``out``'s journal.
    """
    failed: dict[str, str] = {}

    def read(image: Image.Image) -> str | ItemError:
        try:
            return ocr_image(image, language=language, scale=scale, timeout_s=timeout_s)
        except ItemError as error:
            return error

    def work(keys: Sequence[str]) -> Iterable[tuple[str, str | ItemError]]:
        with _one_thread_each(), ThreadPoolExecutor(processes) as pool:
            for key, value in _read_all(store, keys, lambda image: pool.submit(read, image), processes):
                if isinstance(value, ItemError):
                    failed[key.removeprefix(_PREFIX)] = str(value).partition(":")[0]
                yield key, value

    keys = [_PREFIX + tile_id for tile_id in store.tile_ids]
    texts = process_items("ocr", keys, str, work, out, max_error_share=1.0)  # the row decides what is too many
    return {key.removeprefix(_PREFIX): text for key, text in texts.items()}, failed


def _read_all(
    store: TileStore, keys: Sequence[str], submit: Callable[[Image.Image], Future[str | ItemError]], width: int
) -> Iterator[tuple[str, str | ItemError]]:
    """(key, text or error) as they finish; one decoded picture waits beside the ``width`` at work."""
    running: dict[Future[str | ItemError], str] = {}
    for key in keys:
        try:
            image = store.image(key.removeprefix(_PREFIX))
        except InputError as error:
            yield key, ItemError(f"picture can't be decoded: {error}")
            continue
        running[submit(image)] = key
        if len(running) > width:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            yield from [(running.pop(future), future.result()) for future in done]
    yield from [(key, future.result()) for future, key in running.items()]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """tesseract's own threads slow it down when several run: the variable is read by each new process."""
    before = os.environ.get("OMP_THREAD_LIMIT")
    os.environ["OMP_THREAD_LIMIT"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_THREAD_LIMIT"]
        else:
            os.environ["OMP_THREAD_LIMIT"] = before
