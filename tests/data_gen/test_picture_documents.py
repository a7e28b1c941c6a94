"""Pictures as pages: turned, reduced, in the right colours, frames stacked; what can't be read fails alone, by name."""

import contextlib
import hashlib
import io
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.paged_documents import DocumentSizes, DocumentWorker, render_document
from tilewright.data_gen.picture_document import PICTURE_FORMATS, fitted_size
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.sources.pictures import ImageFolder

PAGE = Page("0" * 16, "https://example.com/a.png", "A", "documents/a.png", "images")
SIZES = DocumentSizes(page_timeout_s=30.0)


@pytest.fixture(scope="module")
def worker() -> Iterator[DocumentWorker]:
    with DocumentWorker() as shared:
        yield shared


Draw = Callable[..., np.ndarray]


@pytest.fixture
def draw(tmp_path: Path, worker: DocumentWorker) -> Draw:
    """draw(name, image or bytes, **save options) -> [H, W, 3] of the tiles put together, as int16."""

    def run(name: str, image: Image.Image | bytes, sizes: DocumentSizes = SIZES, **options: object) -> np.ndarray:
        path = tmp_path / name
        if isinstance(image, bytes):
            path.write_bytes(image)
        else:
            image.save(path, **options)
        document = render_document(path, PAGE, sizes, worker=worker)
        return joined(list(document.tiles), document.width_px, document.height_px)

    return run


def joined(tiles: list[Tile], width_px: int, height_px: int) -> np.ndarray:
    page = np.full((height_px, width_px, 3), -1, dtype=np.int16)
    for tile in tiles:
        place = (slice(tile.y_px, tile.y_px + tile.height_px), slice(tile.x_px, tile.x_px + tile.width_px))
        assert (page[place] == -1).all()  # no two tiles overlap
        page[place] = np.asarray(decode_image(tile.image))
        assert (tile.text, tile.words, tile.links, sum(tile.evidence_px.values())) == ("", (), (), 0)
    return page


def gradient(width_px: int, height_px: int) -> Image.Image:
    """Every pixel tells its place."""
    y, x = np.mgrid[0:height_px, 0:width_px]
    return Image.fromarray(np.stack([x % 256, y % 256, (x // 256 + y // 256) * 16 % 256], axis=2).astype(np.uint8))


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".tiff", ".gif", ".webp", ".PNG"])
def test_lossless_formats_keep_every_pixel(draw: Draw, suffix: str) -> None:
    image = gradient(300, 2080)
    if suffix == ".gif":
        image = image.quantize(64, dither=Image.Dither.NONE)
    options = {"lossless": True} if suffix == ".webp" else {}
    assert (draw(f"a{suffix}", image, **options) == np.asarray(image.convert("RGB"))).all()


def test_jpeg(draw: Draw) -> None:
    image = Image.linear_gradient("L").convert("RGB")
    assert np.abs(draw("a.jpeg", image, quality=95) - np.asarray(image)).max() < 8


def test_wide_pictures_are_reduced_and_no_row_is_lost(draw: Draw) -> None:
    image = gradient(2001, 3001)
    pixels = draw("a.png", image)
    assert pixels.shape == (1312, 875, 3)  # 3001 * 875 / 2001 = 1312.28
    assert (pixels == np.asarray(image.resize((875, 1312), Image.Resampling.LANCZOS))).all()
    line = Image.new("RGB", (1750, 600), "white")
    ImageDraw.Draw(line).line((0, 599, 1749, 599), fill="black")  # the very last row
    ImageDraw.Draw(line).line((0, 0, 1749, 0), fill="black")
    reduced = draw("line.png", line)
    assert reduced[-1].max() < 160 and reduced[0].max() < 160 and reduced[5:-5].min() > 240
    assert draw("flat.png", Image.new("RGB", (5000, 1), "red")).shape == (1, 875, 3)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 2000))
def test_fitted_size(width_px: int, height_px: int, limit_px: int) -> None:
    width, height = fitted_size(width_px, height_px, limit_px)
    if width_px <= limit_px:
        assert (width, height) == (width_px, height_px)
    else:
        exact = height_px * limit_px / width_px
        assert width == limit_px and height >= 1 and (abs(height - exact) <= 0.5 or (height == 1 and exact < 1))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_exif_orientation(draw: Draw, orientation: int, suffix: str) -> None:
    """Table of EXIF 2.3: how the stored picture is turned to be shown."""
    shown = Image.new("RGB", (96, 64), "white")
    shown.paste("red", (0, 0, 48, 16))
    store = {
        1: lambda image: image,
        2: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: lambda image: image.transpose(Image.Transpose.ROTATE_180),
        4: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
        6: lambda image: image.transpose(Image.Transpose.ROTATE_90),
        7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
        8: lambda image: image.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[274] = orientation
    pixels = draw(f"a.{suffix}", store(shown), exif=exif)
    assert pixels.shape == (64, 96, 3)
    assert np.abs(pixels - np.asarray(shown)).max() < 100 and np.abs(pixels - np.asarray(shown)).mean() < 3


def test_a_sideways_photo_is_reduced_by_its_shown_width(draw: Draw) -> None:
    exif = Image.Exif()
    exif[274] = 6
    assert draw("a.jpg", gradient(600, 1750), exif=exif).shape == (300, 875, 3)


def test_transparent_is_white(draw: Draw) -> None:
    layer = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    layer.paste((255, 0, 0, 255), (0, 0, 20, 20))
    expected = np.full((40, 40, 3), 255)
    expected[:20, :20] = (255, 0, 0)
    for name in ("a.png", "a.webp", "a.tif"):
        options = {"lossless": True, "exact": True} if name == "a.webp" else {}
        assert (draw(name, layer, **options) == expected).all(), name
    palette = Image.new("P", (40, 40), 1)
    palette.putpalette([255, 0, 0, 0, 0, 0])
    palette.paste(0, (0, 0, 20, 20))
    for name in ("b.gif", "b.png"):
        assert (draw(name, palette, transparency=1) == expected).all(), name


def test_sixteen_bits_are_scaled(draw: Draw) -> None:
    levels = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    for name in ("a.png", "a.tif"):
        pixels = draw(name, Image.fromarray(levels))
        assert (pixels == np.round(levels / 257)[:, :, None]).all(), name
    rows = b"".join(b"\0" + struct.pack(">9H", *[0x1234, 0x8080, 0xFFFF] * 3) for _ in range(2))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 16, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        png += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    assert np.abs(draw("rgb.png", png) - (0x12, 0x80, 0xFF)).max() <= 1


def test_one_bit_and_grey(draw: Draw) -> None:
    checks = Image.fromarray((np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8))
    for mode, suffix in (("1", "tif"), ("1", "png"), ("L", "png"), ("L", "jpg")):
        pixels = draw(
            f"a{mode}.{suffix}", checks.convert(mode), **({"compression": "group4"} if suffix == "tif" else {})
        )
        assert np.abs(pixels - np.asarray(checks)[:, :, None]).max() <= 12


def test_cmyk_without_and_with_profile(draw: Draw) -> None:
    ink = Image.new("CMYK", (20, 20), (0, 255, 255, 0))
    assert np.abs(draw("a.tif", ink)[5, 5] - (255, 0, 0)).max() <= 1
    assert np.abs(draw("a.jpg", ink, quality=100)[5, 5] - (255, 0, 0)).max() <= 4


def test_colours_by_profile(draw: Draw, tmp_path: Path) -> None:
    """A picture in another space of colours: its profile says what sRGB viewers should show."""
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    srgb = ImageCms.createProfile("sRGB")
    green = Image.new("RGB", (20, 20), (40, 180, 90))
    as_lab = ImageCms.profileToProfile(green, srgb, lab, outputMode="LAB")
    assert as_lab is not None
    assert np.abs(draw("a.tif", as_lab)[5, 5] - (40, 180, 90)).max() <= 12  # of 8 bits a channel
    swapped = swapped_profile(ImageCms.ImageCmsProfile(srgb).tobytes())
    for name in ("a.png", "a.jpg"):  # the picture's red channel is green, and the other way round
        pixels = draw(name, Image.new("RGB", (20, 20), (180, 40, 90)), icc_profile=swapped, quality=100)
        assert np.abs(pixels[5, 5] - (40, 180, 90)).max() <= 4, name
    plain = draw("b.png", green, icc_profile=ImageCms.ImageCmsProfile(srgb).tobytes())
    assert (plain == np.asarray(green)).all()
    for broken in (b"no profile", swapped[:200]):
        assert (draw("c.png", green, icc_profile=broken) == np.asarray(green)).all()


def swapped_profile(profile: bytes) -> bytes:
    """An sRGB profile whose red and green primaries are exchanged, under another name."""
    data = bytearray(profile)
    count = struct.unpack_from(">I", data, 128)[0]
    for i in range(count):
        at = 132 + 12 * i
        names = {b"rXYZ": b"gXYZ", b"gXYZ": b"rXYZ"}
        data[at : at + 4] = names.get(bytes(data[at : at + 4]), bytes(data[at : at + 4]))
    return bytes(data).replace("sRGB".encode("utf-16-be"), "XRGB".encode("utf-16-be")).replace(b"sRGB b", b"XRGB b")


def test_a_picture_is_what_its_bytes_say(draw: Draw) -> None:
    image = gradient(30, 20)
    for name, kind in (("a.jpg", "PNG"), ("a.png", "WEBP"), ("a.webp", "TIFF"), ("a.gif", "BMP")):
        pixels = draw(name, image, format=kind, **({"lossless": True} if kind == "WEBP" else {}))
        assert (pixels == np.asarray(image)).all(), name
    with pytest.raises(ItemError, match="cannot identify"):  # what would run a program stays no picture
        draw("b.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")


def test_frames_of_a_tiff_are_stacked(draw: Draw, tmp_path: Path) -> None:
    frames = [gradient(300, 1100), Image.new("L", (1750, 40), 99), Image.new("RGB", (20, 5), "red")]
    pixels = draw("a.tif", frames[0], save_all=True, append_images=frames[1:])
    assert pixels.shape == (1100 + 20 + 5, 875, 3)
    assert (pixels[:1100, :300] == np.asarray(frames[0])).all()
    assert (pixels[1100:1120] == 99).all() and (pixels[1120:, :20] == (255, 0, 0)).all()
    assert (pixels[:1100, 300:] == -1).all() and (pixels[1120:, 20:] == -1).all()  # narrow pages stay narrow


def test_thumbnails_in_a_tiff_are_no_pages(draw: Draw) -> None:
    page, thumbnail = Image.new("RGB", (60, 80), "blue"), Image.new("RGB", (6, 8), "blue")
    thumbnail.encoderinfo = {"tiffinfo": {254: 1}}
    pixels = draw("a.tif", page, save_all=True, append_images=[thumbnail])
    assert pixels.shape == (80, 60, 3)


def test_of_an_animation_the_first_frame(draw: Draw) -> None:
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("red", "green", "blue")]
    for name, options in (("a.gif", {}), ("a.webp", {"lossless": True}), ("a.png", {})):
        pixels = draw(name, frames[0], save_all=True, append_images=frames[1:], **options)
        assert pixels.shape == (20, 30, 3) and (pixels == (255, 0, 0)).all(), name


def test_bombs_are_refused_before_they_are_decoded(draw: Draw, tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    idat = b"IDAT" + zlib.compress(bytes(1000))
    png += struct.pack(">I", len(idat) - 4) + idat + struct.pack(">I", zlib.crc32(idat))
    with pytest.raises(ItemError, match=r"a\.png: 60000 x 60000 px, max_pixels is 100000000"):
        draw("a.png", png)
    small = DocumentSizes(max_pixels=5000)
    assert draw("b.png", gradient(50, 100), small).shape == (100, 50, 3)
    with pytest.raises(ItemError, match="max_pixels is 5000"):
        draw("b.png", gradient(50, 101), small)
    with pytest.raises(ItemError, match="more than max_pages = 2 frames"):
        draw("c.tif", gradient(9, 9), DocumentSizes(max_pages=2), save_all=True, append_images=[gradient(9, 9)] * 2)
    with pytest.raises(ItemError, match="99 px high, max_height_px is 98"):
        draw("d.png", gradient(50, 99), DocumentSizes(max_height_px=98))
    assert draw("e.png", gradient(2, 20_000), DocumentSizes(tile_height_px=2, min_tile_px=1)).shape == (20_000, 2, 3)
    with pytest.raises(ItemError, match="10001 rows of tiles"):  # whose ids wouldn't ascend
        draw("e.png", gradient(2, 20_001), DocumentSizes(tile_height_px=2, min_tile_px=1))


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "tif", "bmp"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9])
def test_truncated_files_are_named(draw: Draw, suffix: str, share: float) -> None:
    buffer = io.BytesIO()
    image = Image.effect_noise((200, 200), 90).convert("RGB")
    options = {"compression": "tiff_lzw"} if suffix == "tif" else {}
    image.save(buffer, PICTURE_FORMATS[f".{suffix}"], **options)
    with pytest.raises(ItemError, match=rf"a\.{suffix}: "):
        draw(f"a.{suffix}", buffer.getvalue()[: int(share * buffer.tell())])


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "tif", "bmp"])
def test_damaged_files_are_drawn_or_named(draw: Draw, suffix: str) -> None:
    buffer = io.BytesIO()
    gradient(60, 50).save(buffer, PICTURE_FORMATS[f".{suffix}"])
    drawn = 0
    for seed in range(20):
        chance, damaged = random.Random(seed), bytearray(buffer.getvalue())
        for _ in range(chance.choice((1, 3, 20))):
            damaged[chance.randrange(chance.choice((100, len(damaged))))] = chance.randrange(256)
        with contextlib.suppress(ItemError):
            drawn += draw(f"a.{suffix}", bytes(damaged)).size > 0
    assert drawn < 20


def test_a_file_is_read_as_what_its_name_says(draw: Draw) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PPM")
    with pytest.raises(ItemError, match=r"a\.png: UnidentifiedImageError"):
        draw("a.png", buffer.getvalue())
    with pytest.raises(ItemError, match="32 bits"):
        draw("float.tif", Image.new("F", (9, 9)))


def test_the_source_in_the_stage(tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    gradient(40, 50).save(tmp_path / "in" / "sub" / "Blatt ä.JPG")
    gradient(40, 50).save(tmp_path / "in" / "moss.png")
    (tmp_path / "in" / "empty.gif").touch()
    (tmp_path / "in" / "notes.txt").write_text("no picture")
    entries = list(ImageFolder(tmp_path / "in", "https://example.com/scans/").entries(Counter()))
    assert [(entry.url, entry.title) for entry in entries] == [
        ("https://example.com/scans/empty.gif", "empty"),
        ("https://example.com/scans/moss.png", "moss"),
        ("https://example.com/scans/sub/Blatt ä.JPG", "Blatt ä"),
    ]
    options = {"source": "images", "workers": 2, "path": tmp_path / "in", "base_url": "https://example.com/scans"}
    manifest = run_stage(STAGE, Config(out=tmp_path / "out", max_error_share=0.5, **options))
    assert (manifest["counts"]["pages"], manifest["counts"]["failed"]) == (2, 1)
    for page in read_jsonl(tmp_path / "out" / "pages.jsonl", Page):
        data = (tmp_path / "out" / page.html_path).read_bytes()
        assert page.content_sha256 == hashlib.sha256(data).hexdigest() and page.fetched == ""
        assert page.html_path.endswith((".jpg", ".png"))
        (tile,) = render_document(tmp_path / "out" / page.html_path, page, SIZES).tiles
        assert (tile.width_px, tile.height_px, tile.title) == (40, 50, page.title)
    with pytest.raises(InputError, match="base_url"):
        ImageFolder(tmp_path / "in", None)
    with pytest.raises(InputError, match="wanted a picture"):
        ImageFolder(tmp_path / "in" / "notes.txt", "https://example.com/")
