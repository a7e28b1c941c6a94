"""A page that shows citations: the question, what each system cites for it, and the words boxed on their tiles."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import ImageDraw

from tilewright.configs.partial import write_atomically
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.evidence.spire.citations import Citation
from tilewright.eval.evidence.spire.citing import Citing
from tilewright.eval.parts import Question

MARGIN_PX = 40  # shown above and below the boxes
PICTURES = 4  # of a question and system
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "img{max-width:100%;border:1px solid #888}li{margin:.3em 0}h3{margin-bottom:0}"
)


def write_page(
    path: Path, questions: Sequence[Question], cited: Mapping[str, Sequence[Citing]], store: TileStore | None
) -> None:
    """``cited`` {system: of each of the questions}. All text is escaped; links lead to http(s) addresses alone."""
    parts = [f"<!doctype html><meta charset=utf-8><title>Citations</title><style>{_STYLE}</style><h1>Citations</h1>"]
    for question in questions:
        parts.append(f"<h2>{html.escape(question.query)}</h2>")
        for name, found in cited.items():
            parts.append(f"<h3>{html.escape(name)}</h3>")
            own = [citing for citing in found if citing.outcome.query_id == question.query_id]
            parts += [_list(citing.citations, store) for citing in own]
    write_atomically(path, "\n".join(parts) + "\n")


def _list(citations: Sequence[Citation], store: TileStore | None) -> str:
    drawn = [citation for citation in citations if citation.tile_id][:PICTURES] if store is not None else []
    items = []
    for citation in citations:
        text = html.escape(citation.quote)
        if citation.url.startswith(("http://", "https://")):
            text = f'<a href="{html.escape(citation.url)}" rel="noreferrer">{text}</a>'
        picture = _picture(citation, store) if store is not None and citation in drawn else ""
        items.append(f"<li>{text}{picture}</li>")
    return f"<ol>{''.join(items)}</ol>"


def _picture(citation: Citation, store: TileStore) -> str:
    """The part of the tile around the boxes, as a picture inside the page; "" of a tile stored without its picture."""
    if not citation.boxes or not store.has_image(citation.tile_id):
        return ""
    image = store.image(citation.tile_id).convert("RGB")
    draw = ImageDraw.Draw(image)
    for box in citation.boxes:
        draw.rectangle(box, outline=(200, 0, 0), width=2)
    top = max(0, int(min(box[1] for box in citation.boxes)) - MARGIN_PX)
    bottom = min(image.height, int(max(box[3] for box in citation.boxes)) + MARGIN_PX)
    encoded = io.BytesIO()
    image.crop((0, top, image.width, bottom)).save(encoded, "PNG")
    data = base64.b64encode(encoded.getvalue()).decode()
    return f'<br><img alt="the words on their tile" src="data:image/png;base64,{data}">'
