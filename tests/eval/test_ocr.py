"""OCR of rendered text; failures are counted; a finished tile is never read again."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval import ocr
from tilewright.eval.cache import Cache
from tilewright.eval.ocr import ocr_image, read_pictures, require_tesseract
from tilewright.eval.parts import Picture
from tilewright.eval.tools import MissingToolError
from tilewright.eval.workshop import OcrConfig

SETTINGS = {"language": "eng", "scale": 1.0, "timeout_s": 30.0}


def picture(text: str) -> Image.Image:
    image = Image.new("RGB", (700, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, fill="black", font=ImageFont.load_default(size=36))
    return image


class Counted:
    """Pictures by name, one of them broken; which were decoded is noted."""

    def __init__(self, pictures: dict[str, Image.Image | None]) -> None:
        self.pictures, self.read = pictures, list[str]()

    def all(self) -> list[Picture]:
        return [Picture(name, (700, 120), partial(self.load, name)) for name in self.pictures]

    def load(self, name: str) -> Image.Image:
        self.read.append(name)
        found = self.pictures[name]
        if found is None:
            raise InputError(f"picture {name}: broken")
        return found


def test_reads_rendered_text() -> None:
    assert require_tesseract("eng")
    assert "Warsaw" in ocr_image(picture("Marie Curie, Warsaw 1867"), **SETTINGS)
    assert "1867" in ocr_image(picture("Marie Curie, Warsaw 1867"), language="eng", scale=2.0, timeout_s=30.0)


def test_failures_are_counted_and_finished_pictures_are_kept(tmp_path: Path) -> None:
    pictures = Counted({"a": picture("Alpha"), "b": None, "c": picture("Gamma")})
    options = OcrConfig("eng", 1.0, 30.0, processes=2)
    texts, failed = read_pictures(pictures.all(), options, Cache(tmp_path))
    assert failed == {"b": "picture can't be decoded: picture b: broken"}
    assert set(texts) == {"a", "c"} and "Alpha" in texts["a"]
    (log,) = tmp_path.glob("ocr/*/logs/errors.jsonl")
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["key"] == "b"
    pictures.read.clear()
    assert read_pictures(pictures.all(), options, Cache(tmp_path)) == (texts, failed)
    assert pictures.read == ["b"]
    assert os.environ.get("OMP_THREAD_LIMIT") is None or os.environ["OMP_THREAD_LIMIT"] != ""
    other = OcrConfig("eng", 2.0, 30.0, processes=2)
    read_pictures(pictures.all()[:1], other, Cache(tmp_path))
    assert pictures.read == ["b", "a"], "other settings are another part of the cache"


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
