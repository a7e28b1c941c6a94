"""pairs -> pairs whose tile alone yields the stored answer: a model answers from the tile, then a judge compares."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.llm import Client, LlmSettings, Session
from tilewright.data_gen.llm_judge import JudgePrompts, LlmJudge
from tilewright.data_gen.pair_files import check_pictures, check_tiles
from tilewright.data_gen.pair_outcomes import ERROR, KEPT, PAIRS, Outcome, outcome_of, read_input_pairs, write_outcomes
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.review import write_outcome_review
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict

NO_ANSWER = "no_known_answer"
NAMES = {Verdict.CORRECT: KEPT, Verdict.WRONG: "wrong_answer", Verdict.CANNOT_ANSWER: "cannot_answer"}
UNPARSED = "reply_unusable"


@dataclass(frozen=True)
class Config:
    """Keeps those of ``pairs`` (folder of a stage that writes pairs.jsonl) that ``tiles`` answer, by ``llm``.

    ``prompts.answer``: answer_text.v1 sends a tile's DOM text, no picture. ``shard``: "i/n" does the pairs of one of n
    parts of the pages; merge_pairs puts parts together. ``review_pairs``: so many of the pairs, drawn by ``seed``, are
    shown in review.html. More than ``max_error_share`` of failed pairs stop the stage.
    """

    out: Path
    llm: LlmSettings
    pairs: Path = input_path()
    tiles: Path = input_path()
    prompts: JudgePrompts = field(default=JudgePrompts())
    shard: str | None = None
    review_pairs: int = 0
    seed: int = 0
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        check_bounds(self, 0, 1, "max_error_share")
        check_bounds(self, 0, None, "review_pairs")
        part_of(self.shard)


Item = tuple[int, QAPair]


def answerable(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pairs.jsonl (the kept ones in their order) and outcomes.jsonl (all, with what the model answered)."""
    pairs = read_input_pairs(inputs["pairs"], "make_queries")
    store = TileStore.open(inputs["tiles"])
    check_tiles(pairs, store, inputs["pairs"] / PAIRS)
    part = part_of(config.shard)
    items = [(position, pair) for position, pair in enumerate(pairs) if in_part(pair.page_id, part)]
    judge = LlmJudge(config.prompts)
    if judge.sees_pictures:
        check_pictures(store, [pair.tile_id for pair in pairs])
    asked = [item for item in items if has_answer(item[1])]

    async def work(client: Client, item: Item) -> dict[str, Any]:
        pair = item[1]
        tile = store.get(pair.tile_id) if judge.sees_pictures else store.light(pair.tile_id)
        look = await judge.look(client, pair.query, (pair.answer, *pair.aliases), tile)
        return {"verdict": look.verdict.value, "answer": look.answer, "by": look.by}

    with Session(config.llm, out) as session:
        found = session.process("answerable", asked, lambda item: item[1].query_id, work, config.max_error_share)
    outcomes = [_outcome(position, pair, found.get(pair.query_id)) for position, pair in items]
    counts = write_outcomes(out, {pair.query_id: pair for _, pair in items}, outcomes)
    write_outcome_review(out, outcomes, items, store, number=config.review_pairs, seed=config.seed, title="answerable")
    decided_by = dict(sorted(Counter(value["by"] for value in found.values()).items()))
    how = {"prompts": judge.name, "input": "picture" if judge.sees_pictures else "text", "model": config.llm.model}
    return {**counts, "decided_by": decided_by, **how}


def has_answer(pair: QAPair) -> bool:
    """Whether there is anything to compare with: a letter or a digit, else nothing is asked and the pair is dropped."""
    return any(character.isalnum() for character in "".join((pair.answer, *pair.aliases)))


def _outcome(position: int, pair: QAPair, value: dict[str, Any] | None) -> Outcome:
    if not has_answer(pair):
        return outcome_of(position, pair, NO_ANSWER)
    if value is None:
        return outcome_of(position, pair, ERROR)
    return outcome_of(position, pair, NAMES.get(Verdict(value["verdict"]), UNPARSED), value)


STAGE = Stage("answerable", Config, answerable, schema=1)

if __name__ == "__main__":
    main(STAGE)
