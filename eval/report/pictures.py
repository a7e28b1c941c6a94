"""Pictures of tiles as data URLs, as large as a byte budget allows."""

import base64
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from tilewright.data_gen.store.rows import check_tile_id
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of

WIDTHS_PX = (480, 400, 320, 240, 160, 100)  # the first at which all pictures together fit
QUALITY = 55


def data_urls(store: TileStore, uses: Iterable[str], *, budget_bytes: int) -> dict[str, str]:
    """{tile_id: WebP data URL} for the tiles named in ``uses`` (a tile shown twice counts twice).

    All have one width, the largest of WIDTHS_PX at which they fit ``budget_bytes``; beyond the last width the budget
    is exceeded rather than a picture left out.
    """
    times = Counter(uses)
    images = {tile_id: _shrunk(store.image(tile_id), WIDTHS_PX[0]) for tile_id in sorted(times)}
    urls: dict[str, str] = {}
    for width in WIDTHS_PX:
        urls = {tile_id: _data_url(_shrunk(image, width)) for tile_id, image in images.items()}
        if sum(len(urls[tile_id]) * count for tile_id, count in times.items()) <= budget_bytes:
            break
    return urls


def _shrunk(image: Image.Image, width_px: int) -> Image.Image:
    if image.width <= width_px:
        return image
    height_px = max(1, round(image.height * width_px / image.width))
    return image.resize((width_px, height_px), Image.Resampling.LANCZOS)


def _data_url(image: Image.Image) -> str:
    return "data:image/webp;base64," + base64.b64encode(_encoded(image)).decode("ascii")


def _encoded(image: Image.Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=QUALITY, method=4)
    return encoded.getvalue()


def write_pictures(store: TileStore, tile_ids: Sequence[str], folder: Path) -> None:
    """Write {tile_id}.webp of each below ``folder``; one that is there already, of a killed run, isn't made again.

    Raises InputError for an id of another form than a store's.
    """
    folder.mkdir(exist_ok=True)
    for tile_id in tile_ids:
        check_tile_id(tile_id, page_of(tile_id))  # it is the name of a file
        place = folder / f"{tile_id}.webp"
        if not place.exists():
            temporary = place.with_suffix(".tmp")
            temporary.write_bytes(_encoded(_shrunk(store.image(tile_id), WIDTHS_PX[0])))
            temporary.replace(place)
