"""The report as one HTML file: nothing is loaded, no script runs, every text from data is escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.data_gen.records import QAPair
from tilewright.eval.metrics import LEVELS
from tilewright.eval.report.markup import Markup, join, tag, void
from tilewright.eval.report.tables import cost_table, facts_table, reader_table, recall_table
from tilewright.eval.wording import learning_sentence, pixel_sentence, pool_sentence

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class ShownHit:
    """A retrieved tile: its place, its score, its page's title."""

    tile_id: str
    page_id: str
    title: str
    score: float


@dataclass(frozen=True)
class ShownQuestion:
    """A question with what rows retrieved (first hits), where gold stands in each, and what readers said.

    ``ranks``: {row: (rank of the first tile of the gold page, rank of the gold tile)}, None beyond the depth.
    ``answers``: (reader, prediction or error, whether it counts as right; None for an error).
    """

    pair: QAPair
    gold_title: str
    gold_in_pool: bool
    hits: Mapping[str, Sequence[ShownHit]]
    ranks: Mapping[str, tuple[int | None, int | None]]
    answers: Sequence[tuple[str, str, bool | None]]


def render(
    metrics: Mapping[str, Any],
    questions: Sequence[ShownQuestion],
    figures: Sequence[Markup],
    pictures: Mapping[str, str],
) -> str:
    """The whole file. ``figures``: the curves; ``pictures``: {tile_id: data URL} of every tile shown."""
    sections = [
        _head(metrics),
        tag("h2", "Retrieval"),
        *[recall_table(metrics, level) for level in LEVELS],
        tag("p", _RECALL_NOTE, class_="note"),
        tag("h2", "Reader"),
        *_reader(metrics),
        tag("h2", "Curves"),
        tag("div", *figures, class_="plots") if figures else tag("p", "No training run was given.", class_="note"),
        tag("h2", f"{len(questions)} test questions, chosen by digest of their ids"),
        tag("p", _PICTURE_NOTE, class_="note"),
        *[_question(question, pictures) for question in questions],
        tag("h2", "Where this comes from"),
        *_provenance(metrics),
    ]
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("link", rel="icon", href="data:,"),
        tag("title", "Tilewright evaluation"),
        tag("style", Markup(style)),
    ]
    body = tag("main", *[Markup(f"{section}\n") for section in sections])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{join(head, chr(10))}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    )


_RECALL_NOTE = (
    "Recall@k by page: the gold page is among the pages of the first k tiles. By tile: the gold tile is. MRR: mean of"
    " 1 / rank of the first right tile. Intervals resample gold pages (cluster bootstrap), because questions of one"
    " page are not independent; where all questions agree, a Wilson interval with one trial a page stands instead."
    " The random ranking is an exact expectation, with each gold page's own number of tiles."
)
_PICTURE_NOTE = (
    "Green: the gold tile. Amber: another tile of the gold page (right by page). Red: another page. Click a picture to"
    " enlarge it, click elsewhere to close it."
)


def _head(metrics: Mapping[str, Any]) -> Markup:
    parts = [tag("h1", "Tilewright evaluation"), tag("p", pool_sentence(metrics))]
    pixels = pixel_sentence(metrics)
    if pixels:
        parts.append(tag("p", pixels))
    if metrics["stand_ins"]:
        lines = tag("ul", *[tag("li", line) for line in metrics["stand_ins"]])
        parts.append(
            tag(
                "div",
                tag("p", tag("strong", "These figures come from stand-ins.")),
                lines,
                class_="honest",
                role="note",
            )
        )
    learned = learning_sentence(metrics)
    if learned:
        parts.append(tag("p", tag("strong", "Learning check. "), learned, class_="learned"))
    return join(parts)


def _reader(metrics: Mapping[str, Any]) -> list[Markup]:
    if not metrics["readers"]:
        return [tag("p", "No reader was evaluated.", class_="note")]
    settings = metrics["settings"]["readers"]
    note = (
        f"{settings['questions']} of {metrics['questions']['n_questions']} questions, chosen by digest of"
        f" their ids; the reader gets {settings['tiles']} tile(s) a question. Compression c scales each"
        " side by 1/√c. An error is no wrong answer: it is counted apart and left out of the accuracy."
    )
    parts = [reader_table(metrics), tag("p", note, class_="note")]
    return [*parts, cost_table(metrics)] if metrics["costs"] else parts


def _question(question: ShownQuestion, pictures: Mapping[str, str]) -> Markup:
    pair = question.pair
    facts: list[tuple[object, object]] = [
        ("Answer", " / ".join([pair.answer, *pair.aliases])),
        ("Gold", join([question.gold_title, " ", tag("code", pair.tile_id)])),
        *[(f"Rank in {row}", _ranks(ranks)) for row, ranks in question.ranks.items()],
    ]
    listed = tag("dl", *[join([tag("dt", name), tag("dd", value)]) for name, value in facts])
    gold = tag("div", tag("h4", "gold tile"), tag("div", _gold(question, pictures), class_="gold"))
    sides = [
        tag(
            "div",
            tag("h4", row),
            tag("div", *[_hit(hit, rank, pair, pictures) for rank, hit in enumerate(hits, start=1)], class_="hits"),
        )
        for row, hits in question.hits.items()
    ]
    pictured = tag("div", gold, *sides, class_="sides")
    return tag("section", tag("h3", pair.query), listed, pictured, *_answers(question), class_="question")


def _answers(question: ShownQuestion) -> list[Markup]:
    """What each reader said, folded away; nothing if the question wasn't among those asked."""
    if not question.answers:
        return []
    right = sum(right is True for _, _, right in question.answers)
    said = [join([tag("dt", name), tag("dd", _answer(said, right))]) for name, said, right in question.answers]
    title = f"What the readers said: {right} of {len(question.answers)} right"
    return [tag("details", tag("summary", title), tag("dl", *said))]


def _ranks(ranks: tuple[int | None, int | None]) -> str:
    page, tile = ("not found" if rank is None else f"{rank}" for rank in ranks)
    return f"gold page {page}, gold tile {tile}"


def _answer(said: str, right: bool | None) -> Markup:
    if right is None:
        return join([tag("span", "error", class_="warn"), " ", said])
    mark = tag("span", "✓ right", class_="right-text") if right else tag("span", "✗ wrong", class_="wrong-text")
    return join([mark, " ", said or "(empty)"])


def _gold(question: ShownQuestion, pictures: Mapping[str, str]) -> Markup:
    if not question.gold_in_pool:
        return tag("p", "not among the tiles searched", class_="warn")
    return _picture(question.pair.tile_id, question.gold_title, "", pictures)


def _hit(hit: ShownHit, rank: int, pair: QAPair, pictures: Mapping[str, str]) -> Markup:
    if hit.tile_id == pair.tile_id:
        kind, verdict = "right", "✓ gold tile"
    elif hit.page_id == pair.page_id:
        kind, verdict = "near", "✓ gold page"
    else:
        kind, verdict = "wrong", "✗ other page"
    caption = join([tag("b", f"{rank}. {verdict}"), f"{hit.title} ({hit.score:.3f})"])
    return _picture(hit.tile_id, caption, kind, pictures)


def _picture(tile_id: str, caption: object, kind: str, pictures: Mapping[str, str]) -> Markup:
    image = void("img", src=Markup(pictures[tile_id]), alt=f"tile {tile_id}", tabindex=0)
    return tag("figure", image, tag("figcaption", caption), class_=f"tile {kind}".strip())


def _provenance(metrics: Mapping[str, Any]) -> list[Markup]:
    settings = [(name, _plain(value)) for name, value in metrics["settings"].items()]
    rows = [
        (name, "; ".join(f"{key.replace('_', ' ')} {_plain(value)}" for key, value in row["facts"].items()))
        for name, row in metrics["rows"].items()
        if row.get("facts")
    ]
    stages = [(stage["stage"], f"{stage['identity']}: {_plain(stage['counts'])}") for stage in metrics["provenance"]]
    parts = [facts_table(settings, "Settings"), facts_table(rows, "Rows")]
    return [*parts, facts_table(stages, "Stages before this one: request identity and counts")] if stages else parts


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value)
    return str(value)
