"""pairs -> pairs whose question can be understood by itself: many questions a call, by text alone.

A question that the reply doesn't mention, or mentions with two verdicts, is undecided: it is asked again alone, and
then dropped. A failed call decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import digest_text
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.llm import Client, LlmSettings, Request, Session, Unusable
from tilewright.data_gen.pair_outcomes import ERROR, KEPT, outcome_of, read_input_pairs, write_outcomes
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.prompts import check_prompt, load_prompt
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.review import store_to_review, write_outcome_review
from tilewright.data_gen.verdicts import parse_self_contained

NOT_SELF_CONTAINED, UNDECIDED = "not_self_contained", "undecided"
ALONE = "alone:"  # a question's key in the journal when it is asked by itself
Item = tuple[int, QAPair]


@dataclass(frozen=True)
class Config:
    """Keeps the self-contained ones of ``pairs``, by ``llm``, ``per_call`` questions a call.

    ``shard``: "i/n" does one of n parts of the calls; merge_pairs puts parts together. ``review_pairs``: so many of
    the pairs, drawn by ``seed``, are shown in review.html (needs ``tiles``). More than ``max_error_share`` of failed
    calls stop the stage; of questions asked alone, more than that share of all questions.
    """

    out: Path
    llm: LlmSettings
    pairs: Path = input_path()
    tiles: Path | None = input_path(default=None)
    prompt: str = "self_contained.v1"
    per_call: int = 50
    shard: str | None = None
    review_pairs: int = 0
    seed: int = 0
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        check_bounds(self, 0, 1, "max_error_share")
        check_bounds(self, 0, None, "review_pairs")
        check_bounds(self, 1, 500, "per_call")
        check_prompt("prompt", self.prompt, "self_contained")
        part_of(self.shard)
        if self.review_pairs and self.tiles is None:
            raise ValueError("review_pairs: wanted `tiles` beside it, whose pictures the review page shows")


def self_contained(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pairs.jsonl (the kept ones in their order) and outcomes.jsonl (all)."""
    pairs = list(enumerate(read_input_pairs(inputs["pairs"], "make_queries")))
    store = store_to_review(inputs, [pair for _, pair in pairs], config.review_pairs)
    groups = [pairs[start : start + config.per_call] for start in range(0, len(pairs), config.per_call)]
    part = part_of(config.shard)
    groups = [group for group in groups if in_part(query_digest(group[0][1]), part)]
    prompt = load_prompt(config.prompt)

    async def ask(client: Client, group: Sequence[Item]) -> dict[str, Any]:
        queries = [pair.query for _, pair in group]

        def parse(reply: str) -> list[bool | None] | None:
            verdicts = parse_self_contained(reply, len(queries))
            return None if all(verdict is None for verdict in verdicts) else verdicts

        text = prompt.fill(questions=numbered(queries))
        request = Request("self_contained", (text,), schema=prompt.schema, schema_name="self_contained")
        found = await client.complete(request, parse)
        return {"verdicts": [None] * len(group) if isinstance(found, Unusable) else found.value}

    def process(name: str, wanted: Sequence[Sequence[Item]], prefix: str, allowed: float) -> dict[str, Any]:
        return session.process(name, wanted, lambda group: f"{prefix}{group[0][1].query_id}", ask, allowed)

    with Session(config.llm, out) as session:
        verdicts = _verdicts(groups, process("self_contained", groups, "", config.max_error_share), "")
        alone = [[item] for group in groups for item in group if verdicts[item[1].query_id] == UNDECIDED]
        allowed = config.max_error_share * len(verdicts) / max(1, len(alone))  # few are alone: one of them isn't 1 %
        verdicts |= _verdicts(alone, process("undecided, alone", alone, ALONE, min(1.0, allowed)), ALONE)
    items = [item for group in groups for item in group]
    outcomes = [outcome_of(position, pair, verdicts[pair.query_id]) for position, pair in items]
    counts = write_outcomes(out, {pair.query_id: pair for _, pair in items}, outcomes)
    if store is not None:
        write_outcome_review(
            out, outcomes, items, store, number=config.review_pairs, seed=config.seed, title="self_contained"
        )
    return {**counts, "asked_again_alone": len(alone), "prompt": prompt.identity, "model": config.llm.model}


def query_digest(pair: QAPair) -> str:
    """A stable number for a pair, in hexadecimal, whatever its id looks like."""
    return digest_text(pair.query_id)


def numbered(queries: Sequence[str]) -> str:
    """The questions as a list, each on one line: ``1. ...``."""
    return "\n".join(f"{number}. {' '.join(query.split())}" for number, query in enumerate(queries, start=1))


def _verdicts(groups: Sequence[Sequence[Item]], found: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """{query_id: KEPT, NOT_SELF_CONTAINED, UNDECIDED, or ERROR for those whose call failed}."""
    names = {True: KEPT, False: NOT_SELF_CONTAINED, None: UNDECIDED}
    verdicts = {}
    for group in groups:
        value = found.get(f"{prefix}{group[0][1].query_id}")
        for position, (_, pair) in enumerate(group):
            verdicts[pair.query_id] = ERROR if value is None else names[value["verdicts"][position]]
    return verdicts


STAGE = Stage("self_contained", Config, self_contained, schema=1)

if __name__ == "__main__":
    main(STAGE)
