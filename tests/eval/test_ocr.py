"""OCR of rendered text; failures are counted; a finished tile is never read again."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval import ocr
from tilewright.eval.ocr import ocr_image, ocr_tiles, require_tesseract
from tilewright.eval.tools import MissingToolError

SETTINGS = {"language": "eng", "scale": 1.0, "timeout_s": 30.0}


def picture(text: str) -> Image.Image:
    image = Image.new("RGB", (700, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, fill="black", font=ImageFont.load_default(size=36))
    return image


class Pictures(TileStore):
    """A store whose pictures are given; one of them broken."""

    def __init__(self, pictures: dict[str, Image.Image | None]) -> None:
        self.pictures, self.tile_ids = pictures, sorted(pictures)  # type: ignore[assignment]
        self.read: list[str] = []

    def image(self, tile_id: str) -> Image.Image:
        self.read.append(tile_id)
        found = self.pictures[tile_id]
        if found is None:
            raise InputError(f"tile {tile_id}: broken")
        return found


def test_reads_rendered_text() -> None:
    assert require_tesseract("eng")
    assert "Warsaw" in ocr_image(picture("Marie Curie, Warsaw 1867"), **SETTINGS)
    assert "1867" in ocr_image(picture("Marie Curie, Warsaw 1867"), language="eng", scale=2.0, timeout_s=30.0)


def test_failures_are_counted_and_finished_tiles_are_kept(tmp_path: Path) -> None:
    store = Pictures({"a": picture("Alpha"), "b": None, "c": picture("Gamma")})
    texts, failed = ocr_tiles(store, tmp_path, processes=2, **SETTINGS)
    assert failed == {"b": "picture can't be decoded"}
    assert set(texts) == {"a", "c"} and "Alpha" in texts["a"]
    (line,) = (tmp_path / "logs" / "errors.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == "ocr/b"
    store.read.clear()
    assert ocr_tiles(store, tmp_path, processes=2, **SETTINGS) == (texts, failed)
    assert store.read == ["b"]
    assert os.environ.get("OMP_THREAD_LIMIT") is None or os.environ["OMP_THREAD_LIMIT"] != ""


def test_time_out_is_an_error_of_the_tile() -> None:
    with pytest.raises(ItemError, match="timeout"):
        ocr_image(picture("Alpha"), language="eng", scale=1.0, timeout_s=1e-4)


def test_missing_tool_and_language_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingToolError, match="tesseract-ocr-tlh"):
        require_tesseract("eng+tlh")
    monkeypatch.setattr(ocr.pytesseract.pytesseract, "tesseract_cmd", "/nowhere/tesseract")
    monkeypatch.setattr(ocr.pytesseract, "get_tesseract_version", ocr.pytesseract.get_tesseract_version.__wrapped__)
    with pytest.raises(MissingToolError, match="apt-get install tesseract-ocr"):
        require_tesseract("eng")
