"""The dataset card of a tile store: README.md, with the YAML head that a hub and ``datasets`` read."""

from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.rows import IMAGE, tile_features
from tilewright.data_gen.tile_store import TileStore

README = "README.md"
_HOSTS = 20
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGER = ((10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"))
_TEXT = """
# {name}

{tiles:,} screenshot tiles of {pages:,} web pages: {pixels}. A row is a tile: a crop of a rendered page
with its place on the page, the text, words, blocks and links it shows (boxes in tile pixels), and a hash of its
pixels.{left_out}

```python
import datasets

tiles = datasets.load_from_disk("path/of/the/store")   # rows with pictures
tiles.push_to_hub("owner/name")
```

| column | what it holds |
|---|---|
| `tile_id` | `{{page_id}}-{{row:04d}}-{{column:02d}}` |
| `page_id` | 16 hex of SHA-256 of the page's canonical URL |
| `url`, `title` | of the page |
| `x_px`, `y_px`, `width_px`, `height_px` | where the tile lies on its page |
| `image`, `image_sha256` | the encoded picture; SHA-256 of its size and decoded RGB |
| `text` | the DOM text whose boxes fall in the tile, in reading order |
| `evidence_px` | covered px² by infobox, table, list, paragraph |
| `words`, `blocks`, `links` | with their boxes |

Pages by host: {hosts}.

The pages belong to their authors; whoever publishes this set answers for its licence (`{license}`).
"""


def write_card(folder: Path, *, name: str, license_id: str = "unknown") -> Path:
    """Write README.md into the store in ``folder`` and return its path. Raises InputError if one is there already."""
    store = TileStore.open(folder)
    path = store.folder / README
    if path.exists():
        raise InputError(f"{path} exists: delete it to have it written anew")
    path.write_text(dataset_card(store, name=name, license_id=license_id), encoding="utf-8")
    return path


def dataset_card(store: TileStore, *, name: str, license_id: str = "unknown") -> str:
    """The card's text: YAML head and what the tiles are; a function of the store, name and licence alone."""
    from datasets import DatasetInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    name = " ".join(name.split())
    head = DatasetCardData(
        license=license_id,
        pretty_name=name,
        size_categories=[_size_category(len(store))],
        task_categories=["visual-document-retrieval"],
        tags=["screenshots", "web-pages", "visual-document-retrieval"],
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": "data-*.arrow"}]}],
    )
    DatasetInfosDict({"default": DatasetInfo(features=tile_features())}).to_dataset_card_data(head)
    hosts, pixels, left_out = _figures(store)
    text = _TEXT.format(
        name=name,
        tiles=len(store),
        pages=hosts.total(),
        pixels=f"{pixels / 1e6:,.0f} million pixels",
        left_out=f" {left_out:,} tiles are here without their picture." if left_out else "",
        hosts=_hosts(hosts),
        license=license_id,
    )
    return f"---\n{head}\n---\n{text}"


def _figures(store: TileStore) -> tuple[Counter[str], int, int]:
    """(pages by host, pixels, tiles without a picture)."""
    hosts: Counter[str] = Counter()
    pixels, left_out, current = 0, 0, ""
    for page_id, batch in store.page_slices():
        if page_id != current:
            current = page_id
            hosts[urlsplit(batch.column("url")[0].as_py()).hostname or "no host"] += 1
        sides = [batch.column(side).to_numpy().astype(np.int64) for side in ("width_px", "height_px")]
        pixels += int((sides[0] * sides[1]).sum())
        left_out += batch.column(IMAGE).null_count
    return hosts, pixels, left_out


def _hosts(hosts: Counter[str]) -> str:
    first = sorted(hosts.items(), key=lambda item: (-item[1], item[0]))[:_HOSTS]
    text = ", ".join(f"{host} ({count:,})" for host, count in first)
    return text + (f" and {len(hosts) - _HOSTS:,} others" if len(hosts) > _HOSTS else "")


def _size_category(rows: int) -> str:
    return next((name for limit, name in (*_SIZES, *_LARGER) if rows < limit), "n>1T" if rows >= 10**12 else "1B<n<10B")
