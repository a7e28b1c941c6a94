"""page text -> query/passage pairs for the text warm-up of an embedder, offline or by a language model."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.grounded.choice import digest_number
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.passages import Passage, PassageSettings, passages_of
from tilewright.data_gen.records import TextPair, Tile, write_jsonl
from tilewright.data_gen.shingles import tokens
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.text_questions import Asked, QuestionSettings, ask_about, passage_key
from tilewright.data_gen.tile_store import TileStore

Method = Literal["heading", "inverse_cloze", "questions"]
QUESTIONS: Method = "questions"
PAIR_DROPS = ("no_heading", "no_sentence", "passage_too_short", "repeated_query")


@dataclass(frozen=True)
class Config:
    """Pairs from the DOM text of ``tiles`` (folder of render_tiles).

    ``pages``: pages.json of split_pairs; only pages of its ``split`` are used (without: all pages).
    ``methods``: ``heading`` (query: page title and heading; passage: the section's first one) and ``inverse_cloze``
    (query: a sentence, chosen by digest of ``seed`` and passage; passage: what stands around it, with the sentence
    itself in 1 - ``removal_probability`` of the pairs, so that matching words count too; Lee et al. 2019).
    ``min_query_words`` and ``max_query_words`` are of such a sentence. ``questions``: ``llm`` is asked for questions
    about each passage as ``questions`` says; more than ``max_error_share`` of failed passages stop the stage.
    """

    out: Path
    methods: tuple[Method, ...]
    passages: PassageSettings
    min_query_words: int
    max_query_words: int
    removal_probability: float
    seed: int
    tiles: Path = input_path()
    pages: Path | None = input_path(default=None)
    split: Literal["train", "validation", "test"] = "train"
    llm: LlmSettings | None = None
    questions: QuestionSettings | None = None
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        if (self.llm is not None) != (QUESTIONS in self.methods) or (self.questions is not None and self.llm is None):
            raise ValueError("llm: wanted with the method `questions` and with no other")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods: wanted at least one, none twice, found {list(self.methods)}")
        check_bounds(self, 1, None, "min_query_words")
        check_bounds(self, self.min_query_words, None, "max_query_words")
        check_bounds(self, 0, 1, "removal_probability", "max_error_share")


def text_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``text_pairs.jsonl`` in the order of pages, their passages and ``methods``.

    Raises InputError if there is no pair.
    """
    store = TileStore.open(inputs["tiles"])
    wanted = pages_of_split(inputs["pages"], config.split) if "pages" in inputs else None
    drops = Counter(dict.fromkeys((*PAIR_DROPS, "short_passage", "duplicate_passage", "fragment"), 0))
    counts: Counter[str] = Counter()
    by_method: Counter[str] = Counter(dict.fromkeys(config.methods, 0))
    pages: set[str] = set()
    asked: dict[str, Asked] = {}
    if config.llm is not None:
        tiles = (tile for tile in store.iterate_light() if wanted is None or tile.page_id in wanted)
        passages = list(passages_of(tiles, config.passages, Counter()))
        settings = config.questions or QuestionSettings()
        asked = ask_about(passages, settings, config.llm, out, config.max_error_share)

    def counted() -> Iterator[TextPair]:
        tiles = (tile for tile in store.iterate_light() if wanted is None or tile.page_id in wanted)
        for pair in pairs_of(_counted(tiles, counts), config, drops, asked):
            by_method[pair.method] += 1
            pages.add(pair.page_id)
            yield pair

    if not write_jsonl(out / "text_pairs.jsonl", counted()):
        why = ", ".join(f"{name}: {n}" for name, n in sorted(drops.items()) if n) or "no text"
        raise InputError(
            f"{inputs['tiles']}: {counts['tiles']} tiles of {counts['pages']} pages gave no text pair ({why}); wanted"
            " at least one: lower `min_words`, or render pages with more text"
        )
    return {
        **counts,
        "pairs": by_method.total(),
        "pages_with_pairs": len(pages),
        **{f"dropped_{reason}": number for reason, number in sorted(drops.items())},
        "by_method": dict(by_method),
    }


def _counted(tiles: Iterable[Tile], counts: Counter[str]) -> Iterator[Tile]:
    page = None
    counts.update(tiles=0, pages=0)
    for tile in tiles:
        counts["tiles"] += 1
        counts["pages"] += tile.page_id != page
        page = tile.page_id
        yield tile


def pairs_of(
    tiles: Iterable[Tile], config: Config, drops: Counter[str], asked: Mapping[str, Asked] = MappingProxyType({})
) -> Iterator[TextPair]:
    """The pairs of pages whose tiles come page by page in reading order; no query stands twice.

    ``asked``: {passage_key: what a model asks about it}, for the method ``questions``.
    """
    seen: set[str] = set()
    for passage in passages_of(tiles, config.passages, drops):
        for method in config.methods:
            for query, text in _found(method, passage, config, drops, asked):
                if query.casefold() in seen:
                    drops["repeated_query"] += 1
                    continue
                seen.add(query.casefold())
                digest = hashlib.sha256(f"{method}\n{passage.page_id}\n{query}\n{text}".encode()).hexdigest()
                yield TextPair(digest[:16], query, text, passage.page_id, method)


def _found(
    method: Method, passage: Passage, config: Config, drops: Counter[str], asked: Mapping[str, Asked]
) -> list[tuple[str, str]]:
    """(query, passage) as ``method`` makes them."""
    if method == QUESTIONS:
        made = asked.get(passage_key(passage))
        if made is None:
            drops["error"] += 1
            return []
        drops.update(made.dropped)
        return [(query, passage.text) for query in made.queries]
    found = _by_heading(passage, drops) if method == "heading" else _inverse_cloze(passage, config, drops)
    return [] if found is None else [found]


def _by_heading(passage: Passage, drops: Counter[str]) -> tuple[str, str] | None:
    """(title and heading, passage) of a section's first passage: the heading would fit the others as well."""
    if passage.part:
        return None
    named = [name.strip() for name in (passage.title, passage.section) if name.strip()]
    if not named:
        drops["no_heading"] += 1
        return None
    return ": ".join(dict.fromkeys(named)), passage.text


def _inverse_cloze(passage: Passage, config: Config, drops: Counter[str]) -> tuple[str, str] | None:
    """(a sentence, the passage with or without it)."""
    key = f"{config.seed}:{passage.page_id}:{passage.text}"
    whole = range(config.min_query_words, config.max_query_words + 1)
    fitting = [i for i, sentence in enumerate(passage.sentences) if len(tokens(sentence)) in whole]
    if not fitting:
        drops["no_sentence"] += 1
        return None
    chosen = min(fitting, key=lambda i: digest_number(f"{key}:{i}"))
    if digest_number(f"{key}:removed") / 2**64 >= config.removal_probability:
        return passage.sentences[chosen], passage.text
    rest = " ".join(passage.sentences[:chosen] + passage.sentences[chosen + 1 :])
    if len(tokens(rest)) < config.passages.min_words:
        drops["passage_too_short"] += 1
        return None
    return passage.sentences[chosen], rest


STAGE = Stage("text_pairs", Config, text_pairs, schema=1)

if __name__ == "__main__":
    main(STAGE)
