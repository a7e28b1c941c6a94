"""One run of the evaluation, step by step: open, search, read, score."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.data_gen.llm import Prices
from tilewright.data_gen.records import EvalRecord
from tilewright.eval import analyses
from tilewright.eval.analyses import Latencies
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.delivery_measures import delivery_measures
from tilewright.eval.evidence.row_trace import RowTraces
from tilewright.eval.evidence_judge import EvidenceJudge, judged_hits
from tilewright.eval.grading_cells import JUDGE, GraderName, JudgeOptions, grade_cells
from tilewright.eval.metrics import NOT_RUN, PAGE, STRING, TILE, RowResult
from tilewright.eval.parts import Question
from tilewright.eval.reading import Answers, answer_cell, records_of
from tilewright.eval.registry import Registry
from tilewright.eval.rows import Cell, RowSpec, Search, cells_of, retrievers_of, search
from tilewright.eval.scoring import (
    Measure,
    Measurements,
    answer_differences,
    cell_metrics,
    measurements,
    retrieval_metrics,
    scores_of,
)
from tilewright.eval.seed_arms import SeedArms, reading_values
from tilewright.eval.tools import MissingToolError


@dataclass(frozen=True)
class Plan:
    """What a run does: its rows, which figures, who grades, on how many questions readers are asked."""

    specs: Sequence[RowSpec]
    measure: Measure
    compare: Sequence[tuple[str, str]]
    graders: Sequence[GraderName]
    judge: JudgeOptions | None
    read: Sequence[Question]
    missing_is_error: bool
    seeds: SeedArms = field(default_factory=SeedArms)
    evidence_judge: EvidenceJudge | None = None

    @property
    def columns(self) -> list[str]:
        """Every grader's name; the one that decides is ``deciding``."""
        return [*self.graders, *([JUDGE] if self.judge else [])]

    @property
    def deciding(self) -> str:
        """The judge if there is one, else the first grader but exact match."""
        if self.judge:
            return JUDGE
        return next((name for name in self.graders if name != "exact"), self.graders[0])


@dataclass
class Evaluation:
    """The state of a run. ``missing``: {row or cell: the tool that it lacks}; ``seconds``: of each part, for logs."""

    registry: Registry
    plan: Plan
    searches: dict[str, Search] = field(default_factory=dict)
    answers: dict[Cell, Answers] = field(default_factory=dict)
    records: dict[Cell, list[EvalRecord]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def results(self) -> dict[str, RowResult]:
        """What each retriever found."""
        return {name: found.result for name, found in self.searches.items()}

    def run(self) -> None:
        """Search with every retriever, ask every reader, grade. Parts that lack a tool fail before anything runs."""
        workshop, plan = self.registry.workshop, self.plan
        cells = self._usable_cells()
        for name in retrievers_of(plan.specs):
            if name not in self.missing:
                with self._timed(f"search {name}"):
                    self.searches[name] = search(
                        name, self.registry.retriever(name), workshop.questions, plan.measure.depth, workshop.cache
                    )
        if plan.evidence_judge is not None:
            with self._timed("judge evidence"):
                self._judge_evidence(plan.evidence_judge)
        for cell in cells:
            with self._timed(f"read {cell.name}"):
                result = self.searches[cell.retriever].result
                self.answers[cell] = answer_cell(cell, self.registry, result, plan.read, workshop.cache)
        with self._timed("grade"):
            self._grade()

    def _judge_evidence(self, judge: EvidenceJudge) -> None:
        rows = {name: (self.registry.retriever(name), found.result) for name, found in self.searches.items()}
        for name, judged in judged_hits(judge, self.registry.workshop, rows).items():
            found = self.searches[name]
            self.searches[name] = replace(found, result=replace(found.result, judged=judged))

    def _usable_cells(self) -> list[Cell]:
        for name in retrievers_of(self.plan.specs):
            self._need(name, name, self.registry.retriever)
        cells = cells_of(self.plan.specs)
        for cell in cells:
            self._need(cell.name, cell.delivery, self.registry.delivery)
            self._need(cell.name, cell.reader, self.registry.reader)
            if cell.retriever in self.missing:
                self.missing[cell.name] = self.missing[cell.retriever]
        return [cell for cell in cells if cell.name not in self.missing]

    def _need(self, row: str, part: str, make: Callable[[str], object]) -> None:
        """Note, or raise if the config says so, that a part's tool isn't installed."""
        try:
            make(part)
        except MissingToolError as error:
            if self.plan.missing_is_error:
                hint = "or take the row out, or set missing_tool: not_run to show it as not run"
                raise MissingToolError(f"row {row!r}: {error}; {hint}") from error
            self.missing[row] = str(error)

    def _grade(self) -> None:
        plan, workshop = self.plan, self.registry.workshop
        share = plan.measure.max_error_share
        found = list(self.answers.values())
        graded = grade_cells(found, plan.read, plan.graders, plan.judge, workshop.cache, share) if found else {}
        for cell, answers in self.answers.items():
            result = self.searches[cell.retriever].result
            cost = self.registry.reader(cell.reader).cost
            self.records[cell] = records_of(
                answers, result, plan.read, graded[cell.name], plan.deciding, cost, workshop.urls
            )

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - started

    def metrics(self) -> dict[str, Any]:
        """``chance``, ``rows``, ``differences``, ``readers``, ``reader_differences`` and ``analyses``."""
        plan, workshop = self.plan, self.registry.workshop
        titles = {
            name: name if name in self.missing else self.registry.retriever(name).title
            for name in retrievers_of(plan.specs)
        }
        missing = {name: why for name, why in self.missing.items() if name in titles}
        measured = measurements(plan.measure, workshop.questions, workshop.pool, self.results)
        found = retrieval_metrics(plan.measure, measured, self.results, titles, missing, plan.compare)
        bootstrap = plan.measure.bootstrap(plan.read)
        cells = [
            cell_metrics(cell, records, plan.columns, bootstrap, plan.measure.max_error_share)
            | delivery_measures(self.answers[cell].delivered, plan.read, bootstrap)
            for cell, records in self.records.items()
        ]
        cells += [
            {"name": cell.name, "status": NOT_RUN, "reason": self.missing[cell.name]}
            for cell in cells_of(plan.specs)
            if cell.name in self.missing
        ]
        named = {cell.name: records for cell, records in self.records.items()}
        return found | {
            "graders": {"columns": plan.columns, "deciding": plan.deciding},
            "readers": cells,
            "reader_differences": answer_differences(named, plan.columns, plan.compare, bootstrap),
            "seeds": self._over_seeds(measured, bootstrap),
            "analyses": self._analyses([cell for cell in cells if cell["status"] != NOT_RUN], measured),
        }

    def _over_seeds(self, measured: Measurements, bootstrap: ClusterBootstrap) -> dict[str, Any]:
        plan = self.plan
        if not plan.seeds.arms:
            return {}
        named = {cell.name: records for cell, records in self.records.items()}
        return plan.seeds.metrics(
            (measured.scorer.bootstrap, measured.values),
            reading_values(bootstrap, named, plan.columns),
        )

    def _analyses(self, cells: Sequence[Mapping[str, Any]], measured: Measurements) -> dict[str, Any]:
        plan = self.plan
        named = {cell.name: records for cell, records in self.records.items()}
        bootstrap = plan.measure.bootstrap(plan.read)
        accuracy = {
            name: analyses.by_kind(plan.read, scores_of(records, plan.deciding), bootstrap)
            for name, records in named.items()
        }
        sources = {
            name: analyses.by_source(plan.read, scores_of(records, plan.deciding), bootstrap)
            for name, records in named.items()
        }
        modes = {
            cell.name: analyses.failure_modes(records, len(self.results[cell.retriever].page_of or ()))
            for cell, records in self.records.items()
        }
        return {
            "failure_modes": modes,
            "accuracy_by_kind": accuracy,
            "accuracy_by_source": sources,
            "evidence_trace": self._traces(),
            **self._of_retrieval(measured),
            "token_sweep": analyses.token_sweep(cells, plan.deciding),
            "costs": analyses.costs(named, self._prices()),
        }

    def _traces(self) -> dict[str, Any]:
        """{cell: where its questions' answers stop being whole}; of retrievers that have items."""
        registry = self.registry
        traced = {
            name: RowTraces(registry.retriever(name), result, registry.workshop.pages)
            for name, result in self.results.items()
        }
        return {
            cell.name: traced[cell.retriever].summary(self.plan.read, answers.delivered)
            for cell, answers in self.answers.items()
            if not registry.retriever(cell.retriever).closed_book
        }

    def _of_retrieval(self, found: Measurements) -> dict[str, Any]:
        plan, workshop = self.plan, self.registry.workshop
        scorer, bootstrap = found.scorer, found.scorer.bootstrap
        kinds, ranks, displaced, evidence = {}, {}, {}, {}
        for name, result in self.results.items():
            retriever = self.registry.retriever(name)
            if retriever.closed_book:
                continue
            measured = found.values[name]
            level, figure = TILE if TILE in measured else PAGE, f"recall@{plan.measure.ks[-1]}"
            kinds[name] = {
                "level": level,
                "figure": figure,
                "kinds": analyses.by_kind(workshop.questions, measured[level][figure], bootstrap),
            }
            if STRING in measured:
                evidence[name] = analyses.evidence_by(workshop.questions, measured[STRING], bootstrap)
            by_page = scorer.ranks_by_page(result.hits, result.page_of or workshop.pool.page_of)
            answered = [not result.errors.get(question.query_id) for question in workshop.questions]
            kept = [int(rank) for rank, counts in zip(by_page, answered, strict=True) if counts and rank >= 0]
            ranks[name] = analyses.rank_distribution(kept, plan.measure.depth)
            displaced[name] = analyses.displacement(workshop.questions, result, retriever.item)
        by_kind = {"recall_by_kind": kinds, "evidence_by_kind": evidence}
        return by_kind | {"rank_of_gold_page": ranks, "displacement": displaced}

    def _prices(self) -> dict[str, Prices | None]:
        """{cell: prices of its reader}."""
        readers = {cell.name: self.registry.reader(cell.reader) for cell in self.records}
        return {name: getattr(getattr(reader, "settings", None), "prices", None) for name, reader in readers.items()}

    def latencies(self) -> Latencies:
        """What a question took, where it was worked out in this run or is stored with its prediction."""
        return Latencies(
            {name: found.seconds for name, found in self.searches.items()},
            {cell.name: answers.delivery_seconds for cell, answers in self.answers.items()},
            {
                cell.name: [one.seconds for one in answers.predictions.values() if one.seconds]
                for cell, answers in self.answers.items()
            },
        )
