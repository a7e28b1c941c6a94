"""WebDataset tars, folders of images and the published layout: what goes out comes back; hostile files are refused."""

import dataclasses
import io
import json
import random
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.locks import FolderBusyError
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import FailedPage, Page, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.store import exchange
from tilewright.data_gen.store.image_folder import export_images, import_images
from tilewright.data_gen.store.published import export_published, import_published
from tilewright.data_gen.store.verify import verify
from tilewright.data_gen.store.webdataset import export_webdataset, import_webdataset
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.urls import page_id

BASE = "https://example.com/wiki/"
WriteCorpus = Callable[..., TileStore]


def encoded(image: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return buffer.getvalue()


@pytest.fixture
def store(tmp_path: Path, make_page: Callable[..., list[Tile]], small_batches: None) -> TileStore:
    """Pages of one and two columns; PNG, WebP and JPEG pictures, one left out."""
    pages = [make_page(f"Page {number}", height_px=130, width_px=30 * (number + 1)) for number in range(5)]
    tiles = sorted((tile for page in pages for tile in page), key=lambda tile: tile.tile_id)
    image = Image.open(io.BytesIO(tiles[0].image))
    tiles[0] = dataclasses.replace(tiles[0], image=encoded(image, "WEBP"))
    jpeg = encoded(image, "JPEG")
    tiles[1] = dataclasses.replace(tiles[1], image=jpeg, image_sha256=image_sha256(Image.open(io.BytesIO(jpeg))))
    tiles[2] = dataclasses.replace(tiles[2], image=b"", title="A 🙂")
    write_store(tmp_path / "store", tiles)
    return TileStore.open(tmp_path / "store")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_webdataset_there_and_back(tmp_path: Path, store: TileStore) -> None:
    assert export_webdataset(store, tmp_path / "tars", shard_bytes=30_000) == len(store)
    assert len(list((tmp_path / "tars").iterdir())) > 2
    assert import_webdataset(tmp_path / "tars", tmp_path / "back") == len(store)
    assert contents(tmp_path / "back") == contents(store.folder)
    export_webdataset(store, tmp_path / "again", shard_bytes=30_000)
    assert contents(tmp_path / "again") == contents(tmp_path / "tars")
    with tarfile.open(tmp_path / "tars" / "tiles-000000.tar") as tar:
        members = tar.getmembers()
        assert [member.name for member in members[:2]] == [f"{store.tile_ids[0]}.webp", f"{store.tile_ids[0]}.json"]
        assert {(member.mtime, member.uid, member.uname, member.mode) for member in members} == {(0, 0, "", 0o644)}


def test_images_there_and_back(tmp_path: Path, store: TileStore) -> None:
    assert export_images(store, tmp_path / "images") == len(store)
    assert import_images(tmp_path / "images", tmp_path / "back") == len(store)
    assert contents(tmp_path / "back") == contents(store.folder)
    first = json.loads((tmp_path / "images" / "tiles.jsonl").read_text().splitlines()[0])
    assert (tmp_path / "images" / first["file"]).read_bytes() == next(iter(store)).image


def test_any_order_comes_in(tmp_path: Path, store: TileStore) -> None:
    export_images(store, tmp_path / "images")
    lines = (tmp_path / "images" / "tiles.jsonl").read_text().splitlines()
    (tmp_path / "images" / "tiles.jsonl").write_text("\n".join(random.Random(0).sample(lines, len(lines))))
    import_images(tmp_path / "images", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(store.folder)
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "images" / "tiles.jsonl").write_text("\n".join([*lines, lines[3]]))
    with pytest.raises(InputError, match="stands twice"):
        import_images(tmp_path / "images", tmp_path / "back")


def test_published_there_and_back(
    tmp_path: Path, make_page: Callable[..., list[Tile]], write_corpus: WriteCorpus
) -> None:
    """What the layout holds comes back: addresses, places, pictures byte for byte; odd titles too."""
    titles = ["Warsaw", "A/B", "100%25", "What%3F", "Ünï 🙂", "..", "x" * 150 + "é" * 30, "AC", "Ac", "a b"]
    pages = [make_page(title, height_px=130, width_px=90) for title in titles]
    store = write_corpus(tmp_path / "corpus", pages)
    assert export_published(store, tmp_path / "out", base_url=BASE) == len(store)
    names = {path.name for path in (tmp_path / "out").glob("*.png.tiles")}
    assert {"Warsaw.png.tiles", "A%2FB.png.tiles", "What%3F.png.tiles", "100%25.png.tiles"} <= names
    assert all(len(name.encode()) < 255 for name in names) and len({name.casefold() for name in names}) == len(titles)
    result = import_published(tmp_path / "out", tmp_path / "back", base_url=BASE)
    assert (result.pages, result.tiles, result.skipped) == (len(titles), len(store), {})
    back = {tile.tile_id: tile for tile in TileStore.open(tmp_path / "back")}
    collided = {"AC", "Ac", titles[6]}
    kept = [tile for tile in store if tile.title not in collided]
    assert len(kept) > 60
    for tile in kept:
        expected = dataclasses.replace(
            tile, text="", words=(), blocks=(), links=(), evidence_px=dict.fromkeys(tile.evidence_px, 0)
        )
        assert dataclasses.replace(back[tile.tile_id], title=tile.title) == expected
    assert sum(tile.title in collided for tile in store) - len(back) + len(kept) == 0
    assert verify(tmp_path / "back").problems == []
    records = read_jsonl(tmp_path / "back" / "pages.jsonl", Page)
    assert all((page.width_px, page.height_px, page.complete) == (90, 130, False) for page in records)


def test_published_without_a_base_and_other_encodings(tmp_path: Path, store: TileStore) -> None:
    with pytest.raises(InputError, match="without its image"):
        export_published(store, tmp_path / "out")
    whole = [tile for tile in store if tile.image]
    write_store(tmp_path / "whole", whole)
    export_published(TileStore.open(tmp_path / "whole"), tmp_path / "out")
    (path,) = (tmp_path / "out").glob(f"{whole[0].title.replace(' ', '_')}.png.tiles")
    data = (path / f"chunk_{whole[0].row:04d}_{whole[0].column:02d}.png").read_bytes()
    assert data[:4] == b"\x89PNG" and image_sha256(Image.open(io.BytesIO(data))) == whole[0].image_sha256


def test_published_folders_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """Each fault skips its folder with a reason; the others come in."""
    picture = {size: encode_png(Image.new("RGB", size)) for size in ((30, 20), (30, 21))}

    def write(name: str, files: dict[str, bytes]) -> None:
        (tmp_path / "in" / f"{name}.png.tiles").mkdir(parents=True)
        for file, data in files.items():
            (tmp_path / "in" / f"{name}.png.tiles" / file).write_bytes(data)

    good, tall = picture[30, 20], picture[30, 21]
    write("shard/Good%20One", {"chunk_0000_00.png": good, "chunk_0001_00.png": tall})
    write("Good_Two", {"chunk_0000_00.png": good, "chunk_0000_01.webp": encoded(Image.new("RGB", (9, 20)), "WEBP")})
    write("shard/Good%5FTwo", {"chunk_0000_00.png": good})
    write("Gap", {"chunk_0000_00.png": good, "chunk_0002_00.png": good})
    write("Column", {"chunk_0000_01.png": good})
    write("Uneven", {"chunk_0000_00.png": good, "chunk_0000_01.png": tall})
    write("Junk", {"chunk_0000_00.png": b"junk"})
    write("Cut", {"chunk_0000_00.png": encode_png(Image.effect_noise((99, 99), 50))[:3000]})
    write("Other", {"chunk_0000_00.png": good, "notes.txt": b""})
    write("Twice", {"chunk_0000_00.png": good, "chunk_0000_00.jpg": good})
    write("%FF", {"chunk_0000_00.png": good})
    write("Empty", {})
    (tmp_path / "in" / "Link.png.tiles").mkdir()
    (tmp_path / "in" / "Link.png.tiles" / "chunk_0000_00.png").symlink_to("/etc/hostname")
    result = import_published(tmp_path / "in", tmp_path / "out", base_url=BASE)
    assert (result.pages, result.tiles, len(result.skipped)) == (2, 4, 11)
    for name, reason in {
        "shard/Good%5FTwo": "is that of Good_Two",
        "Gap": "follows a gap",
        "Column": "gap",
        "Uneven": "one height",
        "Junk": "wanted a PNG",
        "Cut": "can't be decoded",
        "Other": "notes.txt",
        "Twice": "twice",
        "%FF": "UTF-8",
        "Empty": "no tiles",
        "Link": "plain files",
    }.items():
        assert reason in result.skipped[f"{name}.png.tiles"], name
    tiles = {(tile.title, tile.row, tile.column): tile for tile in TileStore.open(tmp_path / "out")}
    assert tiles["Good One", 1, 0].y_px == 20 and tiles["Good Two", 0, 1].x_px == 30
    assert tiles["Good One", 0, 0].page_id == page_id(BASE + "Good One")
    with pytest.raises(InputError, match="no usable"):
        import_published(tmp_path / "in" / "Gap.png.tiles", tmp_path / "none", base_url=BASE)
    with pytest.raises(InputError, match="absolute"):
        import_published(tmp_path / "in", tmp_path / "none", base_url="wiki/")
    assert not (tmp_path / "none").exists() and not list(tmp_path.glob(".*"))


def a_tar(path: Path, members: list[tuple[tarfile.TarInfo | str, bytes]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path.parent


def test_hostile_tars(tmp_path: Path, store: TileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = store.get(store.tile_ids[5])
    text = json.dumps(exchange.tile_json(tile)).encode()
    name = tile.tile_id
    link = tarfile.TarInfo(f"{name}.png")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    bomb = tile.image[:16] + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    bomb += struct.pack(">I", zlib.crc32(bomb[12:])) + tile.image[33:]
    cases: dict[str, list[tuple[tarfile.TarInfo | str, bytes]]] = {
        "wanted a plain file": [("../../evil.png", tile.image)],
        "wanted a plain file .tile_id": [(link, b"")],
        "has an image, but no": [(f"{name}.png", tile.image)],
        "a second image": [(f"{name}.png", tile.image), (f"{name}.webp", tile.image)],
        "its JSON is of tile": [(f"{store.tile_ids[6]}.json", text)],
        "not JSON": [(f"{name}.json", b"[" * 100_000)],
        "unknown keys": [(f"{name}.json", json.dumps(exchange.tile_json(tile) | {"x": 1}).encode())],
        "without its image": [(f"{name}.json", json.dumps(exchange.tile_json(tile) | {"image": "x"}).encode())],
        "wanted a PNG": [(f"{name}.png", b"junk"), (f"{name}.json", text)],
        "can't hold": [(f"{name}.json", json.dumps(exchange.tile_json(tile) | {"y_px": 2**40}).encode())],
        "up to .* px|exceeds limit": [(f"{name}.png", bomb), (f"{name}.json", text)],
    }
    for number, (reason, members) in enumerate(cases.items()):
        folder = a_tar(tmp_path / str(number) / "a.tar", members)
        with pytest.raises(InputError, match=reason):
            import_webdataset(folder, tmp_path / "back")
    folder = a_tar(tmp_path / "good" / "a.tar", [(f"./{name}.json", text), (f"./{name}.png", tile.image)])
    assert import_webdataset(folder, tmp_path / "back") == 1 and list(TileStore.open(tmp_path / "back")) == [tile]
    whole = (folder / "a.tar").read_bytes()
    (folder / "a.tar").write_bytes(whole[:1000])
    with pytest.raises(InputError, match="not a readable tar"):
        import_webdataset(folder, tmp_path / "back")
    (folder / "a.tar").write_bytes(whole)
    monkeypatch.setattr("tilewright.data_gen.store.webdataset.MAX_IMAGE_BYTES", 100)
    with pytest.raises(InputError, match="wanted up to 100 bytes"):
        import_webdataset(folder, tmp_path / "back")
    with pytest.raises(InputError, match=r"wanted \*\.tar"):
        import_webdataset(tmp_path, tmp_path / "back")


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.map": "a,b"},
        {"GNU.sparse.size": "x", "GNU.sparse.map": "1"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
        {"size": "-5"},
    ],
)
def test_tars_with_odd_heads_are_refused(tmp_path: Path, store: TileStore, headers: dict[str, str]) -> None:
    tile = store.get(store.tile_ids[5])
    member, data = tarfile.TarInfo(f"{tile.tile_id}.json"), exchange.tile_text(tile).encode()
    member.size, member.pax_headers = len(data), headers
    (tmp_path / "in").mkdir()
    with tarfile.open(tmp_path / "in" / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(data))
    with pytest.raises(InputError, match=r"a\.tar"):
        import_webdataset(tmp_path / "in", tmp_path / "back")


@pytest.mark.parametrize(
    "change",
    [
        {"words": [{"text": "x", "x_px": float("nan"), "y_px": 0, "width_px": 1, "height_px": 1, "block": -1}]},
        {"words": [{"text": "x", "x_px": float("inf"), "y_px": 0, "width_px": 1, "height_px": 1, "block": -1}]},
        {"words": [{"text": "x", "x_px": 10**400, "y_px": 0, "width_px": 1, "height_px": 1, "block": -1}]},
        {"row": 10**30},
        {"width_px": 0},
        {"width_px": -5},
        {"width_px": 1},
        {"x_px": -1},
        {"row": 9999},
        {"page_id": "../../../../../x"},
        {"tile_id": "../../x"},
        {"text": "\ud800"},
    ],
)
def test_tiles_with_impossible_values_are_refused(tmp_path: Path, store: TileStore, change: dict[str, object]) -> None:
    tile = store.get(store.tile_ids[5])
    line = json.dumps(exchange.tile_json(tile) | {"file": "x.png"} | change)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").write_bytes(tile.image)
    (tmp_path / "in" / "tiles.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="tile"):
        import_images(tmp_path / "in", tmp_path / "back")


def test_a_line_without_an_end_is_not_read_whole(
    tmp_path: Path, store: TileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_images(store, tmp_path / "images")
    monkeypatch.setattr("tilewright.data_gen.store.image_folder.MAX_JSON_BYTES", 100)
    with pytest.raises(InputError, match=r"tiles\.jsonl:1: wanted up to 100 bytes"):
        import_images(tmp_path / "images", tmp_path / "back")


def test_one_process_at_a_time_makes_a_new_folder(tmp_path: Path, store: TileStore) -> None:
    """A second one is refused and spoils nothing; links to nothing are refused before any work."""
    with exchange.new_folder(tmp_path / "out") as partial:
        (partial / "a").write_text("a")
        with pytest.raises(FolderBusyError):
            export_images(store, tmp_path / "out")
    assert contents(tmp_path / "out") == {"a": b"a"}
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="exists"):
        export_images(store, tmp_path / "link")
    (tmp_path / ".killed.tmp" / "images").mkdir(parents=True)
    (tmp_path / ".killed.tmp" / "images" / "junk").write_text("x")
    assert export_images(store, tmp_path / "killed") == len(store)
    assert not list((tmp_path / "killed").rglob("junk")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("layout", [export_webdataset, export_images, export_published])
def test_page_records_appear_with_the_tiles(
    tmp_path: Path, layout: Callable[..., int], make_page: Callable[..., list[Tile]], write_corpus: WriteCorpus
) -> None:
    store = write_corpus(tmp_path / "corpus", [make_page("A"), make_page("B")])
    write_jsonl(tmp_path / "corpus" / "failed.jsonl", [FailedPage("0" * 16, "https://example.com/x", "hangs")])
    layout(store, tmp_path / "out")
    for name in ("pages.jsonl", "failed.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "corpus" / name).read_bytes()


def test_hostile_image_folders(tmp_path: Path, store: TileStore) -> None:
    export_images(store, tmp_path / "images")
    path = tmp_path / "images" / "tiles.jsonl"
    line = path.read_text().splitlines()[4]
    (tmp_path / "secret.png").write_bytes(store.get(store.tile_ids[4]).image)
    (tmp_path / "images" / "link.png").symlink_to(tmp_path / "secret.png")
    for wrong in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "images", "", "\x00", "a" * 5000, 7):
        path.write_text(json.dumps(json.loads(line) | {"file": wrong}))
        with pytest.raises(InputError, match=r"tiles\.jsonl:1.*wanted a file inside"):
            import_images(tmp_path / "images", tmp_path / "back")
    for text in ("{}", "[]", "x", "[" * 100_000, "7"):
        path.write_text(f"{line}\n{text}\n")
        with pytest.raises(InputError, match=r"tiles\.jsonl:2"):
            import_images(tmp_path / "images", tmp_path / "back")
    with pytest.raises(InputError, match="no such file"):
        import_images(tmp_path, tmp_path / "back")
    with pytest.raises(InputError, match="exists"):
        export_images(store, tmp_path / "images")
