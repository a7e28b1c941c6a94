"""Pictures of tiles as data URLs, as large as a byte budget allows."""

import base64
import io
from collections import Counter
from collections.abc import Iterable

from PIL import Image

from tilewright.data_gen.tile_store import TileStore

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
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")
