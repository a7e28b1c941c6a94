"""pairs -> pairs whose question someone might really ask: a naturalness score of 1 to 5 each, by text alone."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.llm import Client, LlmSettings, Request, Session, Unusable
from tilewright.data_gen.pair_outcomes import ERROR, KEPT, Outcome, outcome_of, read_input_pairs, write_outcomes
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.prompts import check_prompt, load_prompt
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.replies import parse_naturalness
from tilewright.data_gen.review import store_to_review, write_outcome_review
from tilewright.data_gen.self_contained import query_digest

UNPARSED, UNNATURAL = "reply_unusable", "unnatural"
Item = tuple[int, QAPair]


@dataclass(frozen=True)
class Config:
    """Keeps those of ``pairs`` that ``llm`` gives a naturalness of at least ``min_score`` (1 to 5).

    ``shard``, ``review_pairs``, ``tiles`` and ``max_error_share`` as in self_contained.
    """

    out: Path
    llm: LlmSettings
    min_score: int
    pairs: Path = input_path()
    tiles: Path | None = input_path(default=None)
    prompt: str = "naturalness.v1"
    shard: str | None = None
    review_pairs: int = 0
    seed: int = 0
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        check_bounds(self, 0, 1, "max_error_share")
        check_bounds(self, 0, None, "review_pairs")
        check_bounds(self, 1, 5, "min_score")
        check_prompt("prompt", self.prompt, "naturalness")
        part_of(self.shard)
        if self.review_pairs and self.tiles is None:
            raise ValueError("review_pairs: wanted `tiles` beside it, whose pictures the review page shows")


def natural(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pairs.jsonl (the kept ones in their order) and outcomes.jsonl (all, with their scores)."""
    part = part_of(config.shard)
    pairs = read_input_pairs(inputs["pairs"], "make_queries")
    store = store_to_review(inputs, pairs, config.review_pairs)
    items = [(position, pair) for position, pair in enumerate(pairs) if in_part(query_digest(pair), part)]
    prompt = load_prompt(config.prompt)

    async def work(client: Client, item: Item) -> dict[str, Any]:
        text = prompt.fill(question=item[1].query)
        request = Request("natural", (text,), schema=prompt.schema, schema_name="naturalness")
        found = await client.complete(request, parse_naturalness)
        return {"score": None if isinstance(found, Unusable) else found.value}

    with Session(config.llm, out) as session:
        found = session.process("natural", items, lambda item: item[1].query_id, work, config.max_error_share)
    outcomes = [_outcome(position, pair, found.get(pair.query_id), config.min_score) for position, pair in items]
    counts = write_outcomes(out, {pair.query_id: pair for _, pair in items}, outcomes)
    if store is not None:
        write_outcome_review(out, outcomes, items, store, number=config.review_pairs, seed=config.seed, title="natural")
    scores = Counter(str(value["score"]) for value in found.values())
    return {**counts, "scores": dict(sorted(scores.items())), "prompt": prompt.identity, "model": config.llm.model}


def _outcome(position: int, pair: QAPair, value: dict[str, Any] | None, min_score: int) -> Outcome:
    if value is None:
        return outcome_of(position, pair, ERROR)
    if value["score"] is None:
        return outcome_of(position, pair, UNPARSED, value)
    return outcome_of(position, pair, KEPT if value["score"] >= min_score else UNNATURAL, value)


STAGE = Stage("natural", Config, natural, schema=1)

if __name__ == "__main__":
    main(STAGE)
