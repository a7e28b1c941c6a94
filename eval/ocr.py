"""Text of pictures by tesseract, through pytesseract: kept by content; a failed picture is an error, not empty."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol

import pytesseract
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.cache import Cache
from tilewright.eval.parts import Picture
from tilewright.eval.tools import MissingToolError

ENGINE = "--oem 1 --psm 3"


class OcrSettings(Protocol):
    """What ``read_pictures`` goes by; see workshop.OcrConfig."""

    @property
    def language(self) -> str: ...

    @property
    def scale(self) -> float: ...

    @property
    def timeout_s(self) -> float: ...

    @property
    def processes(self) -> int: ...


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
        return str(pytesseract.image_to_string(image, lang=language, config=ENGINE, timeout=timeout_s))
    except pytesseract.TesseractNotFoundError:
        raise
    except (RuntimeError, OSError, ValueError) as error:
        raise ItemError(f"{type(error).__name__}: {error}") from error


def picture_key(picture: Picture) -> str:
    """A picture's name among what was read: its content, and its compression unless that is 1."""
    return picture.sha256 if picture.compression == 1 else f"{picture.sha256}/{picture.compression!r}"


def read_pictures(
    pictures: Sequence[Picture], settings: OcrSettings, cache: Cache
) -> tuple[dict[str, str], dict[str, str]]:
    """({picture_key: text}, {picture_key: error}); each picture is read once for all rows and runs.

    At most ``settings.processes`` tesseract processes at a time, of one thread each. Raises MissingToolError.
    """
    version = require_tesseract(settings.language)

    def read(image: Image.Image) -> str | ItemError:
        try:
            return ocr_image(image, language=settings.language, scale=settings.scale, timeout_s=settings.timeout_s)
        except ItemError as error:
            return error

    def work(todo: Sequence[Picture]) -> Iterator[tuple[Picture, str | ItemError]]:
        with _one_thread_each(), ThreadPoolExecutor(settings.processes) as pool:
            yield from _read_all(todo, lambda image: pool.submit(read, image), settings.processes)

    part = cache.part("ocr", version, settings.language, settings.scale, ENGINE)
    return cache.values(part, "ocr", pictures, picture_key, work)


def _read_all(
    pictures: Iterable[Picture], submit: Callable[[Image.Image], Future[str | ItemError]], width: int
) -> Iterator[tuple[Picture, str | ItemError]]:
    """(picture, text or error) as they finish; one decoded picture waits beside the ``width`` at work."""
    running: dict[Future[str | ItemError], Picture] = {}
    for picture in pictures:
        try:
            image = picture.shown()
        except InputError as error:
            yield picture, ItemError(f"picture can't be decoded: {error}")
            continue
        running[submit(image)] = picture
        if len(running) > width:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            yield from [(running.pop(future), future.result()) for future in done]
    yield from [(picture, future.result()) for future, picture in running.items()]


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
