"""The cells of a reader's grid, reader x compression x tiles shown: what questions are shown in them, and answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.configs.digests import plain
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import QAPair, ReaderExample
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.eval.cache import Cache
from tilewright.eval.parts import READER_FAILED, Asked, Delivered, Item, Prediction, Question, Reader
from tilewright.eval.reading import Answers
from tilewright.eval.rows import Cell
from tilewright.mining.make_reader_data import fraction

SHOWN = "examples"  # in place of a retriever: tiles come with the examples
GOLD_ABSENT = "gold_absent"  # a record's flag


@dataclass(frozen=True)
class Row:
    """One question with the tiles that it is shown. ``gold_position`` indexes them, None: the gold tile is absent.

    ``abstaining``: what a reader should say then; None where the gold is shown.
    """

    question: Question
    tile_ids: tuple[str, ...]
    gold_position: int | None
    abstaining: str | None

    @property
    def shows_gold(self) -> bool:
        """Whether the gold tile is among those shown."""
        return self.gold_position is not None


def cell_of(reader: str, compression: float, k: int) -> Cell:
    """The cell's names, as in an evaluation's rows."""
    return Cell(SHOWN, f"c{compression:g}", reader, k)


def rows_of(examples: Sequence[ReaderExample], pairs: Mapping[str, QAPair] | None, where: str) -> list[Row]:
    """The examples as they are. ``pairs``: {query_id: the pair that an example was made from}, which knows aliases,
    page and, where the gold is absent, the answer; None: there are none.

    Raises InputError for an example that no pair belongs to, or that doesn't show what its gold position says.
    """
    rows = []
    for example in examples:
        gold = example.gold_position
        if not example.tile_ids or (gold is not None and not 0 <= gold < len(example.tile_ids)):
            raise InputError(
                f"{where}: {example.query_id}: wanted tiles and a gold position among them, found"
                f" {len(example.tile_ids)} tiles and {gold}"
            )
        question = _question(example) if pairs is None else _question_of_pair(example, pairs, where)
        rows.append(Row(question, example.tile_ids, gold, example.answer if gold is None else None))
    return rows


def _question(example: ReaderExample) -> Question:
    if example.gold_position is None:
        return Question(example.query_id, example.query, (), cluster=f"question {example.query_id}")
    gold = example.tile_ids[example.gold_position]
    page = page_of(gold)
    return Question(
        example.query_id, example.query, (example.answer,), frozenset({page}), frozenset({gold}), cluster=page
    )


def _question_of_pair(example: ReaderExample, pairs: Mapping[str, QAPair], where: str) -> Question:
    pair = pairs.get(example.query_id)
    if pair is None or pair.query != example.query:
        found = "none" if pair is None else repr(pair.query)
        raise InputError(f"{where}: {example.query_id}: wanted its pair ({example.query!r}), found {found}")
    position = example.tile_ids.index(pair.tile_id) if pair.tile_id in example.tile_ids else None
    if position != example.gold_position:
        raise InputError(
            f"{where}: {example.query_id}: gold_position is {example.gold_position}, but its pair's tile {pair.tile_id}"
            f" stands at {position}"
        )
    return Question.of(pair)


def check_tiles(rows: Sequence[Row], store: TileStore, where: str) -> None:
    """Raise InputError for a tile that isn't in the store, naming it and its question."""
    for row in rows:
        missing = next((tile_id for tile_id in row.tile_ids if tile_id not in store), None)
        if missing is not None:
            raise InputError(f"{where}: {row.question.query_id} shows tile {missing}, which is not in {store.folder}")


def shrunk(row: Row, k: int, seed: int) -> Row | None:
    """The row with ``k`` of its tiles in their order; None if it has fewer.

    The gold tile stays; which others do depends on their ids and the seed alone, so that those for k are among those
    for k + 1, and the gold's position stays as uniform as it was.
    """
    if len(row.tile_ids) < k:
        return None
    gold = None if row.gold_position is None else row.tile_ids[row.gold_position]
    others = sorted(
        (tile_id for tile_id in row.tile_ids if tile_id != gold),
        key=lambda tile_id: fraction(seed, "kept", row.question.query_id, tile_id),
    )
    kept = {*others[: k - (gold is not None)], *([] if gold is None else [gold])}
    tiles = tuple(tile_id for tile_id in row.tile_ids if tile_id in kept)
    return replace(row, tile_ids=tiles, gold_position=None if gold is None else tiles.index(gold))


def answer_rows(
    cell: Cell,
    compression: float,
    reader: Reader,
    rows: Sequence[Row],
    item_of: Callable[[str], Item],
    cache: Cache,
) -> Answers:
    """Ask the reader about each row's tiles at ``compression``; what it has answered before isn't asked again.

    A reader that fails is that question's error: no wrong answer, and no abstention.
    """
    delivered = {
        row.question.query_id: Delivered(
            tuple(item_of(tile_id).compressed(compression) for tile_id in row.tile_ids),
            () if row.shows_gold else (GOLD_ABSENT,),
        )
        for row in rows
    }
    asked = {row.question.query_id: Asked(row.question, delivered[row.question.query_id].items) for row in rows}
    part = cache.part("answers", reader.identity)

    def key(one: Asked) -> str:
        return one.key(reader.sees_answers)

    values, failed = cache.values(part, cell.name, list(asked.values()), key, _working(reader, part))
    return Answers(
        cell=cell,
        predictions={name: Prediction(**values[key(one)]) for name, one in asked.items() if key(one) in values},
        errors={name: f"{READER_FAILED}: {failed[key(one)]}" for name, one in asked.items() if key(one) in failed},
        delivered=delivered,
        delivery_seconds=(),
    )


def _working(reader: Reader, part: Path) -> Callable[[Sequence[Asked]], Iterator[tuple[Asked, Any]]]:
    def work(todo: Sequence[Asked]) -> Iterator[tuple[Asked, Any]]:
        if todo:
            for one, value in reader.answer(todo, part):
                yield one, value if isinstance(value, ItemError) else plain(value)

    return work
