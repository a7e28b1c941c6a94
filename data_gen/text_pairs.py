"""page text -> query/passage pairs for the text warm-up of an embedder, offline or by a language model.

Pairs stand in the order of pages. Those of all parts (``shard: i/n``) in that order, each query once, are those of one
run: merge_pairs puts them together.
"""

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
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.passages import Passage, PassageSettings, passages_of
from tilewright.data_gen.records import TextPair, Tile, write_jsonl
from tilewright.data_gen.review_text import write_text_review
from tilewright.data_gen.shingles import tokens
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.text_questions import Asked, QuestionSettings, ask_about, passage_key
from tilewright.data_gen.tile_store import TileStore

Method = Literal["heading", "inverse_cloze", "questions"]
QUESTIONS: Method = "questions"
PAIRS = "text_pairs.jsonl"
REPEATED = "repeated_query"
DROPS = ("no_heading", "no_sentence", "passage_too_short", REPEATED, "short_passage", "duplicate_passage", "fragment")


@dataclass(frozen=True)
class Config:
    """Pairs from the DOM text of ``tiles`` (folder of render_tiles).

    ``pages``: pages.json of split_pairs; only pages of its ``split`` are used (without: all pages).
    ``methods``: ``heading`` (query: page title and heading; passage: the section's first one) and ``inverse_cloze``
    (query: a sentence, chosen by digest of ``seed`` and passage; passage: what stands around it, with the sentence
    itself in 1 - ``removal_probability`` of the pairs, so that matching words count too; Lee et al. 2019).
    ``min_query_words`` and ``max_query_words`` are of such a sentence. ``questions``: ``llm`` is asked for questions
    about each passage as ``questions`` says; more than ``max_error_share`` of failed passages stop the stage.

    ``shard``: "i/n" makes the pairs of one of n parts of the pages; each part reads the text of all of them, since of
    passages with the same words one counts in the whole corpus. ``review_pairs``: so many pairs, drawn by ``seed``, are
    shown in review.html.
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
    shard: str | None = None
    review_pairs: int = 0
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        if (self.llm is not None) != (QUESTIONS in self.methods) or (self.questions is not None and self.llm is None):
            raise ValueError("llm: wanted with the method `questions` and with no other")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods: wanted at least one, none twice, found {list(self.methods)}")
        check_bounds(self, 1, None, "min_query_words")
        check_bounds(self, self.min_query_words, None, "max_query_words")
        check_bounds(self, 0, 1, "removal_probability", "max_error_share")
        check_bounds(self, 0, None, "review_pairs")
        part_of(self.shard)


def text_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``text_pairs.jsonl`` in the order of pages, their passages and ``methods``.

    Raises InputError if there is no pair (of a part: that may be).
    """
    corpus = Corpus(TileStore.open(inputs["tiles"]), config, inputs.get("pages"))
    drops = Counter(dict.fromkeys(DROPS, 0))
    asked: dict[str, Asked] = {}
    if config.llm is not None:
        settings = config.questions or QuestionSettings()
        asked = ask_about(list(corpus.passages(Counter())), settings, config.llm, out, config.max_error_share)
    found = write_pairs(out, pairs_of(corpus.passages(drops), config, drops, asked), config.methods)
    if not found["pairs"] and corpus.part == (0, 1):
        why = ", ".join(f"{name}: {n}" for name, n in sorted(drops.items()) if n) or "no text"
        raise InputError(
            f"{inputs['tiles']}: {corpus.tiles} tiles of {corpus.pages} pages gave no text pair ({why}); wanted"
            " at least one: lower `min_words`, or render pages with more text"
        )
    if corpus.heads is not None:
        write_text_review(out, out / PAIRS, corpus.heads, number=config.review_pairs, seed=config.seed)
    dropped = {f"dropped_{reason}": number for reason, number in sorted(drops.items())}
    return {"tiles": corpus.tiles, "pages": corpus.pages, **found, **dropped}


class Corpus:
    """The pages of a split and the part of them that a run is about: as ``passages`` last went through them, their
    number, that of their tiles, and, if any are to be reviewed, ``heads``: {page_id: (title, URL)}.
    """

    def __init__(self, store: TileStore, config: Config, pages: Path | None) -> None:
        self._store, self._settings = store, config.passages
        self._wanted = None if pages is None else pages_of_split(pages, config.split)
        self.part = part_of(config.shard)
        self.tiles, self.pages = 0, 0
        self.heads: dict[str, tuple[str, str]] | None = {} if config.review_pairs else None
        self._firsts = None if self.part == (0, 1) else self._first_of_their_words()

    def _first_of_their_words(self) -> frozenset[str]:
        """Keys of the part's passages whose words stand on no page before, be it of another part."""
        tiles = (tile for tile in self._store.iterate_light() if self._is_wanted(tile))
        found = passages_of(tiles, self._settings, Counter())
        return frozenset(passage_key(passage) for passage in found if in_part(passage.page_id, self.part))

    def _is_wanted(self, tile: Tile) -> bool:
        return self._wanted is None or tile.page_id in self._wanted

    def _own_tiles(self) -> Iterator[Tile]:
        self.tiles, self.pages, page = 0, 0, None
        for tile in self._store.iterate_light():
            if self._is_wanted(tile) and in_part(tile.page_id, self.part):
                self.tiles += 1
                self.pages += tile.page_id != page
                page = tile.page_id
                if self.heads is not None:
                    self.heads.setdefault(page, (tile.title, tile.url))
                yield tile

    def passages(self, drops: Counter[str]) -> Iterator[Passage]:
        """The part's passages in reading order; what is left out is counted in ``drops``."""
        for passage in passages_of(self._own_tiles(), self._settings, drops):
            if self._firsts is None or passage_key(passage) in self._firsts:
                yield passage
            else:
                drops["duplicate_passage"] += 1


def write_pairs(out: Path, pairs: Iterable[TextPair], methods: Iterable[str]) -> Counts:
    """Write the pairs as they come; their counts."""
    by_method: Counter[str] = Counter(dict.fromkeys(methods, 0))
    pages: set[str] = set()

    def counted() -> Iterator[TextPair]:
        for pair in pairs:
            by_method[pair.method] += 1
            pages.add(pair.page_id)
            yield pair

    number = write_jsonl(out / PAIRS, counted())
    return {"pairs": number, "pages_with_pairs": len(pages), "by_method": dict(by_method)}


def pairs_of(
    passages: Iterable[Passage], config: Config, drops: Counter[str], asked: Mapping[str, Asked] = MappingProxyType({})
) -> Iterator[TextPair]:
    """The pairs of passages, each query once. ``asked``: {passage_key: what a model asks}, for ``questions``."""
    made = (
        text_pair(method, passage.page_id, query, text)
        for passage in passages
        for method in config.methods
        for query, text in _found(method, passage, config, drops, asked)
    )
    return unrepeated(made, drops)


def text_pair(method: str, page_id: str, query: str, text: str) -> TextPair:
    """A pair with its id: 16 hex of SHA-256 of all the rest."""
    digest = hashlib.sha256(f"{method}\n{page_id}\n{query}\n{text}".encode()).hexdigest()
    return TextPair(digest[:16], query, text, page_id, method)


def unrepeated(pairs: Iterable[TextPair], drops: Counter[str]) -> Iterator[TextPair]:
    """Of pairs with the same query, in any case, the first."""
    seen: set[str] = set()
    for pair in pairs:
        if pair.query.casefold() in seen:
            drops[REPEATED] += 1
            continue
        seen.add(pair.query.casefold())
        yield pair


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
