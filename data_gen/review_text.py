"""The review page of query and passage pairs: the passage stands where other reviews show the tile."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.data_gen.html_page import text
from tilewright.data_gen.pair_outcomes import KEPT
from tilewright.data_gen.records import TextPair, iterate_jsonl
from tilewright.data_gen.review import sample
from tilewright.data_gen.review_page import REVIEW, Article, address, cut, value, write_page

GUIDE = "Good: someone who asks this would be served by this passage, and the query says what it is about."


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What the draw of a sample needs of a pair."""

    query_id: str
    page_id: str


def write_text_review(out: Path, pairs: Path, heads: Mapping[str, tuple[str, str]], *, number: int, seed: int) -> None:
    """Write ``out``/review.html with ``number`` of the ``pairs`` (JSONL of TextPair), drawn by ``seed``.

    ``heads``: {page_id: (title, URL)}. Passages aren't held in memory but for those shown.
    """
    drawn = sample([_Drawn(pair.pair_id, pair.page_id) for pair in iterate_jsonl(pairs, TextPair)], number, seed)
    wanted = {entry.query_id for entry in drawn}
    found = {pair.pair_id: pair for pair in iterate_jsonl(pairs, TextPair) if pair.pair_id in wanted}
    chosen = [found[entry.query_id] for entry in drawn]
    articles = [_article(pair, *heads[pair.page_id]) for pair in chosen]
    write_page(out / REVIEW, articles, title="text_pairs", guide=GUIDE, sample=_digest(chosen))


def _digest(pairs: Sequence[TextPair]) -> str:
    """What marks belong to: the pairs, whatever their order."""
    lines = sorted(json.dumps(asdict(pair), sort_keys=True) for pair in pairs)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _article(pair: TextPair, title: str, url: str) -> Article:
    return Article(
        {"query_id": pair.pair_id, "page_id": pair.page_id, "outcome": KEPT},
        f'<div class="passage" dir="auto">{_marked(pair)}</div>',
        pair.query,
        "",
        [("Page", value(title)), ("Address", address(url))],
        [("Outcome", value(KEPT)), ("Method", value(pair.method))],
        "How it was made",
    )


def _marked(pair: TextPair) -> str:
    """The passage; the query in it, if it stands there, marked."""
    if pair.query not in cut(pair.passage):
        return text(cut(pair.passage))
    before, _, behind = cut(pair.passage).partition(pair.query)
    return f"{text(before)}<mark>{text(pair.query)}</mark>{text(behind)}"
