"""Ways to cite, side by side at one budget: blocks, sentences with context, bare ones, and sentences a filter named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tilewright.configs.bounds import check_bounds
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.evidence.spire.blocks import BLOCK_TOKENS, PageBlock
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.labellers import Labeller, LexicalLabeller, ModelLabeller
from tilewright.eval.evidence.spire.markdown import render
from tilewright.eval.evidence.spire.measures import Cited, Outcome
from tilewright.eval.evidence.spire.seed_index import BlockIndex, Hits, MakeEngine, SeedIndex
from tilewright.eval.evidence.spire.spire import Mode, Spire, SpireOptions, candidates_of
from tilewright.eval.evidence.spire.text_encoders import EndpointOptions, SentenceTransformerOptions
from tilewright.eval.evidence.spire.views import CountTokens, Misfit, View, seed_text
from tilewright.eval.parts import Question

BLOCKS = "blocks"
SearchOptions = Literal["bm25", "minilm"] | SentenceTransformerOptions | EndpointOptions


@dataclass(frozen=True)
class SystemOptions:
    """``mode`` blocks: whole blocks of at most ``block_tokens``; else sentences, see SpireOptions.

    ``search``: bm25, minilm, or a text encoder. ``labels``: the model of mode full's filter; None: by shared words.
    """

    mode: Literal["blocks", "embedding", "noctx", "full"]
    search: SearchOptions = "bm25"
    labels: LlmSettings | None = None
    tokens: int = 1000
    pool: int = 200
    misfit: Misfit = "skip"
    block_tokens: int = BLOCK_TOKENS
    local_tokens: int = SpireOptions.local_tokens
    views: int = SpireOptions.views

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "tokens", "pool", "block_tokens", "local_tokens", "views")
        if self.labels is not None and self.mode != "full":
            raise ValueError(f"labels: wanted with mode full alone, found {self.mode!r}")

    def spire(self) -> SpireOptions:
        """The options of the sentence modes."""
        mode = cast(Mode, self.mode)
        return SpireOptions(mode, self.tokens, self.pool, self.misfit, self.local_tokens, self.views)

    def labeller(self) -> Labeller:
        """The filter of mode full."""
        return LexicalLabeller() if self.labels is None else ModelLabeller(self.labels)


@dataclass(frozen=True)
class Answer:
    """A question's outcome, and the sentences cited: (page_id, seed), in document order within a page."""

    question: Question
    outcome: Outcome
    seeds: tuple[tuple[str, int], ...]


def run_system(
    options: SystemOptions,
    documents: Mapping[str, Document],
    segmenter: str,
    questions: Sequence[Question],
    count: CountTokens,
    make: MakeEngine,
    out: Path,
    labeller: Labeller,
) -> list[Answer]:
    """One outcome for each question over ``documents`` {page_id: document}. ``out``: a folder for a model's replies."""
    queries = [question.query for question in questions]
    if options.mode == BLOCKS:
        blocks = BlockIndex(documents, count, options.block_tokens)
        found = make(blocks.texts).search(queries, options.pool)
        return [
            _of_blocks(options, question, hits, blocks, count) for question, hits in zip(questions, found, strict=True)
        ]
    bare = options.mode == "noctx"
    index = SeedIndex(documents, segmenter, bare=bare)
    spire = Spire(documents.__getitem__, options.spire(), labeller, out)
    answers = []
    for question, hits in zip(questions, make(index.texts).search(queries, options.pool), strict=True):
        found_views = spire.answer(question.query, candidates_of(hits, index.places), count)
        answers.append(_of_views(question, found_views.views, found_views.flags, count))
    return answers


def _of_blocks(
    options: SystemOptions, question: Question, hits: Hits, blocks: BlockIndex, count: CountTokens
) -> Answer:
    """Blocks in rank order as long as they fit; one that doesn't is passed over, or ends the walk."""
    used, taken = 0, list[tuple[str, PageBlock]]()
    for name, _ in hits:
        page_id, block = blocks.places[name]
        cost = count(block.text)
        if used + cost <= options.tokens:
            used += cost
            taken.append((page_id, block))
        elif options.misfit == "stop":
            break
    cited = tuple(Cited(page_id, block.text, block.text) for page_id, block in taken)
    outcome = Outcome(question.query_id, question.cluster, cited, used, 0)
    return Answer(question, outcome, tuple((page_id, seed) for page_id, block in taken for seed in block.seeds))


def _of_views(
    question: Question, views: Sequence[tuple[str, View]], flags: tuple[str, ...], count: CountTokens
) -> Answer:
    seeds = tuple((page_id, seed) for page_id, view in views for seed in sorted(view.seeds))
    return Answer(question, outcome_of(question, views, flags, count), seeds)


def outcome_of(
    question: Question, views: Sequence[tuple[str, View]], flags: tuple[str, ...], count: CountTokens
) -> Outcome:
    """What views cite, each sentence with the context that it is shown with, and what of their cost is context."""
    cited: list[Cited] = []
    own = 0
    for page_id, view in views:
        own += count(render(view.document, view.document.leaves_of(view.seeds)))
        for seed in sorted(view.seeds):
            shown = seed_text(view.document, seed, bare=view.bare)
            cited.append(Cited(page_id, view.document.seeds[seed].text, shown))
    tokens = sum(view.tokens for _, view in views)
    return Outcome(question.query_id, question.cluster, tuple(cited), tokens, max(0, tokens - own), flags)
