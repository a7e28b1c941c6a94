"""Stage: cite for each question, by blocks or by sentences at one budget, and measure what the citations are worth.

Writes metrics.json, table.md, citations/{system}.jsonl and, with ``tiles``, citations.html: the cited words boxed on
pictures of the tiles that show them.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import LOGS, plain
from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main, write_atomically
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.checkpoints import check_names
from tilewright.eval.evidence.long_units import rough_tokens
from tilewright.eval.evidence.spire.citation_cost import report_cost
from tilewright.eval.evidence.spire.citation_page import write_page
from tilewright.eval.evidence.spire.citing import Citer, Citing, labels_folder
from tilewright.eval.evidence.spire.engines import require_search
from tilewright.eval.evidence.spire.groups import Group, corpus_group, htmlrag_groups
from tilewright.eval.evidence.spire.helpful_judge import citations_to_judge, judge
from tilewright.eval.evidence.spire.measures import Outcome, helpful, per_question, ratio_difference, summary
from tilewright.eval.evidence.spire.segmenters import Segmenter, SegmenterName
from tilewright.eval.evidence.spire.systems import SystemOptions
from tilewright.eval.evidence.spire.views import CountTokens
from tilewright.eval.metrics import compared
from tilewright.eval.parts import Question
from tilewright.eval.questions import benchmark_questions, clusters, pair_questions, subset
from tilewright.eval.report.markdown_tables import pipe_table
from tilewright.train.tokenizer import PromptTokenizer


@dataclass(frozen=True)
class Config:
    """Cite for questions by each of ``systems``.

    Questions are ``pairs``, or ``questions`` (of make_questions), over all ``pages`` (a make_pages folder); or
    ``html_sets``, files of HtmlRAG's test sets with pages, each question over its own. ``count``: so many questions,
    chosen by digest of their ids (None: all). ``tokenizer``: a model folder whose tokenizer counts (None: words and
    marks). ``tiles``: rendered pages, for boxes around cited words; ``shown`` questions are drawn. ``judge``: a model
    that says whether a citation helps; without it, only strings are compared. ``compare``: pairs [system, against].
    """

    out: Path
    systems: dict[str, SystemOptions]
    compare: tuple[tuple[str, str], ...]
    count: int | None
    resamples: int
    confidence: float
    seed: int
    pairs: Path | None = input_path(default=None)
    questions: Path | None = input_path(default=None)
    pages: Path | None = input_path(default=None)
    html_sets: tuple[Path, ...] = input_path(default=())
    tiles: Path | None = input_path(default=None)
    tokenizer: Path | None = input_path(default=None)
    segmenter: SegmenterName = "nupunkt"
    judge: LlmSettings | None = None
    shown: int = 3
    dry_run: bool = execution(default=False)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "count", "resamples")
        check_bounds(self, 0, None, "seed", "shown")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence: wanted above 0 and below 1, found {self.confidence}")
        sources = [self.pairs is not None, self.questions is not None, bool(self.html_sets)]
        if sum(sources) != 1 or (self.pages is None) != bool(self.html_sets):
            raise ValueError("wanted `pages` and either `pairs` or `questions`, or `html_sets` alone")
        if not self.systems:
            raise ValueError("systems: wanted at least one, found none")
        check_names("systems", list(self.systems), ())
        for name in (name for pair in self.compare for name in pair):
            if name not in self.systems:
                raise ValueError(f"compare: wanted some of {sorted(self.systems)}, found {name!r}")

    def as_dry_run(self, out: Path) -> "Config":
        """The same, asking no model: it ends with what they would be asked."""
        if self.judge is None and all(system.labels is None for system in self.systems.values()):
            raise InputError("dry run: wanted a judge or a system with labels, found nothing that asks a model")
        return dataclasses.replace(self, out=out, dry_run=True)


def evaluate_citations(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Raises InputError for questions or pages that can't be read, MissingToolError for a search's package."""
    for system in config.systems.values():
        require_search(system.search, None)
    groups, counts = _groups(config, inputs)
    asked = [question for group in groups for question in group.questions]
    chosen = {q.query_id for q in subset(asked, config.count or len(asked), config.seed, "citations")}
    groups = [_only(group, chosen) for group in groups if any(q.query_id in chosen for q in group.questions)]
    questions = [question for group in groups for question in group.questions]
    citer = Citer(groups, Segmenter(config.segmenter), _counter(inputs), _tiles(inputs), out)
    if config.dry_run:
        report_cost(config.systems, citer, questions, config.judge, out)
    found = {name: _cited(name, options, citer, questions, out) for name, options in config.systems.items()}
    if config.judge is not None:
        found = _judged(found, questions, config.judge, out)
    metrics = _metrics(config, questions, found)
    write_atomically(out / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_atomically(out / "table.md", _table(metrics))
    for name, cited in found.items():
        _write_citations(out / "citations" / f"{name}.jsonl", cited)
    if "tiles" in inputs:
        shown = [question.query_id for question in questions[: config.shown]]
        write_page(out / "citations.html", questions[: config.shown], {n: _of(c, shown) for n, c in found.items()},
                   citer.tiles)  # fmt: skip
    citations = {f"citations_{name}": sum(len(one.outcome.cited) for one in cited) for name, cited in found.items()}
    counts |= {"questions": len(questions), "systems": len(found)} | citations
    return counts if config.judge is None else counts | _unjudged(found)


def _groups(config: Config, inputs: Inputs) -> tuple[list[Group], Counts]:
    if config.html_sets:
        read = list(htmlrag_groups(config.html_sets))
        return [group for group, _ in read], {"blank_pages": sum(blank for _, blank in read)}
    if "pairs" in inputs:
        questions = pair_questions(read_jsonl(inputs["pairs"], QAPair, unique="query_id"))
    else:
        questions = benchmark_questions(inputs["questions"])
    if not questions:
        raise InputError(f"{config.pairs or config.questions}: holds no questions")
    group, errors = corpus_group(inputs["pages"], questions)
    return [group], {"pages": len(group.html), "pages_failed": len(errors)}


def _only(group: Group, chosen: set[str]) -> Group:
    return Group(tuple(q for q in group.questions if q.query_id in chosen), group.html, group.urls)


def _counter(inputs: Inputs) -> CountTokens:
    if "tokenizer" not in inputs:
        return rough_tokens
    tokenizer = PromptTokenizer.from_folder(inputs["tokenizer"])
    return lambda text: len(tokenizer.text([text])[0])


def _tiles(inputs: Inputs) -> TileStore | None:
    return TileStore.open(inputs["tiles"]) if "tiles" in inputs else None


def _cited(name: str, options: SystemOptions, citer: Citer, questions: Sequence[Question], out: Path) -> list[Citing]:
    """Of each question what the system cites; questions done before a kill aren't done again."""

    def work(todo: Sequence[Question]) -> Iterator[tuple[Question, Any]]:
        for question, citing in citer.run(name, options, todo):
            yield question, plain(citing)

    values = process_items(f"cite {name}", questions, lambda question: f"{name}/{question.query_id}", work, out)
    for ledger in (labels_folder(out, name) / LOGS).glob("*"):
        write_atomically(out / LOGS / f"labels.{name}.{ledger.name}", ledger.read_text(encoding="utf-8"))
    return [Citing.from_plain(values[f"{name}/{question.query_id}"]) for question in questions]


def _judged(
    found: Mapping[str, Sequence[Citing]], questions: Sequence[Question], settings: LlmSettings, out: Path
) -> dict[str, list[Citing]]:
    """The citations of all systems with verdicts, asked for in one session; equal citations share a verdict."""
    asked = citations_to_judge((citing for cited in found.values() for citing in cited), questions)
    verdicts = iter(judge(asked, settings, out))
    return {
        name: [citing.judged(tuple(next(verdicts) for _ in citing.outcome.cited)) for citing in cited]
        for name, cited in found.items()
    }


def _unjudged(found: Mapping[str, Sequence[Citing]]) -> Counts:
    return {f"unjudged_{name}": sum(one.outcome.judged.count(None) for one in cited) for name, cited in found.items()}


def _metrics(config: Config, questions: Sequence[Question], found: Mapping[str, Sequence[Citing]]) -> dict[str, Any]:
    bootstrap = ClusterBootstrap(
        clusters(questions), resamples=config.resamples, seed=config.seed, confidence=config.confidence
    )
    outcomes = {name: [citing.outcome for citing in cited] for name, cited in found.items()}
    helping = {name: _helping(questions, cited) for name, cited in outcomes.items()}
    systems = {name: summary(cited, helping[name], bootstrap) for name, cited in outcomes.items()}
    differences = []
    for left, right in config.compare:
        entry: dict[str, Any] = {"system": left, "against": right}
        entry["citations"] = compared(
            bootstrap, per_question(outcomes[left], "citations"), per_question(outcomes[right], "citations")
        )
        for measure in sorted({name for values in helping[left].values() for name in values}):
            sides = [_sums(outcomes[side], helping[side], measure) for side in (left, right)]
            entry[measure] = ratio_difference(
                *sides, resamples=config.resamples, seed=config.seed, confidence=config.confidence
            )
        differences.append(entry)
    return {"systems": systems, "differences": differences, "options": plain(config.systems)}


def _helping(questions: Sequence[Question], outcomes: Sequence[Outcome]) -> dict[str, dict[str, list[bool | None]]]:
    pairs = zip(questions, outcomes, strict=True)
    return {outcome.query_id: helpful(outcome, question.query, question.answers) for question, outcome in pairs}


def _sums(
    outcomes: Sequence[Outcome], helping: Mapping[str, Mapping[str, Sequence[bool | None]]], measure: str
) -> list[tuple[str, int, int]]:
    rows = []
    for outcome in outcomes:
        known = [value for value in helping[outcome.query_id].get(measure, ()) if value is not None]
        rows.append((outcome.cluster, sum(known), len(known)))
    return rows


def _of(cited: Iterable[Citing], query_ids: Sequence[str]) -> list[Citing]:
    return [citing for citing in cited if citing.outcome.query_id in query_ids]


def _write_citations(path: Path, cited: Sequence[Citing]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(plain(citing), ensure_ascii=False) for citing in cited]
    write_atomically(path, "".join(line + "\n" for line in lines))


def _table(metrics: Mapping[str, Any]) -> str:
    """Systems side by side, helpful / citations as the source has them."""
    head = ["system", "citations a question", "helpful by string", "grounded", "judged"]
    head += ["tokens", "documents", "scaffold"]
    rows = []
    for name, entry in metrics["systems"].items():
        ratios = [_ratio(entry.get(f"helpful_{kind}")) for kind in ("string", "grounded", "judged")]
        means = [f"{entry[key]['mean']:.1f}" for key in ("tokens", "documents")]
        share = entry["scaffold_share"]["mean"]
        scaffold = "–" if share is None else f"{share:.3f}"
        rows.append([name, f"{entry['citations']['mean']:.2f}", *ratios, *means, scaffold])
    return pipe_table(head, rows)


def _ratio(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "–"
    unjudged = f", {entry['unjudged']} unjudged" if entry["unjudged"] else ""
    if entry["ratio"] is None:
        return f"–{unjudged}"
    return f"{entry['total']:.0f}/{entry['n_citations']} {entry['ratio']:.3f}{unjudged}"


STAGE = Stage("evaluate_citations", Config, evaluate_citations, schema=1)

if __name__ == "__main__":
    main(STAGE)
