"""A benchmark's files -> questions.jsonl: one record type for all of them, every row accounted for."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.records import Page, iterate_jsonl, write_jsonl
from tilewright.eval.benchmarks.pictures import Pictures
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read
from tilewright.eval.benchmarks.registry import BENCHMARKS
from tilewright.eval.benchmarks.rows import HubSource, read_hub, read_rows
from tilewright.eval.gold_coverage import GoldCoverage, Redirects, gold_coverage

QUESTIONS, DROPPED, OUTSIDE = "questions.jsonl", "dropped.jsonl", "gold_outside.jsonl"
OTHER_KIND, NO_TEXT, DUPLICATE = "other_kind", "no_question_text", "duplicate_id"


@dataclass(frozen=True)
class Config:
    """Questions of ``benchmark`` (nq, nq_tables, simpleqa, mmsearch, encyclopedic_vqa, livevqa, monaco, frames,
    musique, hotpotqa, asqa) from its published ``files``: .jsonl, .json, .csv, .tsv, .parquet (or .gz), or a folder
    that ``datasets`` saved; or from ``hub``, a data set that ``datasets`` streams at a pinned revision.

    ``split``: the member of a JSON object or of such a folder. ``images``: folder of the pictures that rows name.
    ``kinds``: only questions of these kinds, as the benchmark names them; without: those its entry asks, [] all.
    ``count``: so many of them, drawn by ``seed`` (without: all). ``duplicate_ids``: refuse, or keep the first of them.
    ``pages``: pages.jsonl of the corpus, or a folder that holds it: gold URLs that aren't there, also by way of
    ``redirects`` (JSON {address: address}), are counted and listed in gold_outside.jsonl.
    """

    out: Path
    benchmark: str
    files: tuple[Path, ...] = input_path(default=())
    hub: HubSource | None = None
    images: Path | None = input_path(default=None)
    pages: Path | None = input_path(default=None)
    redirects: Path | None = input_path(default=None)
    split: str | None = None
    kinds: tuple[str, ...] | None = None
    count: int | None = None
    seed: int = 0
    duplicate_ids: Literal["refuse", "keep_first"] = "refuse"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "count")
        if self.benchmark not in BENCHMARKS:
            raise ValueError(f"benchmark: wanted one of {sorted(BENCHMARKS)}, found {self.benchmark!r}")
        if bool(self.files) == (self.hub is not None):
            raise ValueError("files: wanted at least one file, or `hub` in their place, found both or neither")
        if self.hub is not None and self.split is not None:
            raise ValueError("split: wanted in `hub`, found beside it")
        if self.redirects is not None and self.pages is None:
            raise ValueError("redirects: wanted `pages` beside it, found none")


@dataclass(frozen=True)
class DroppedRow:
    """A row, or part of one, that gave no question. ``row``: its file and line, or place in the file."""

    row: str
    reason: str


def make_questions(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write questions.jsonl in the order of the rows, dropped.jsonl, and the query pictures in images/.

    Raises InputError for a row of another schema, an id that stands twice, and if no question is left.
    """
    reader = _Reader(config, out, inputs.get("images"))
    questions = list(reader.questions())
    if not questions:
        why = ", ".join(f"{reason}: {number}" for reason, number in sorted(reader.reasons.items()))
        raise InputError(f"{config.benchmark}: {reader.rows} rows gave no question ({why}): wanted at least one")
    chosen = _sample(questions, config.count, config.seed)
    write_jsonl(out / QUESTIONS, chosen)
    write_jsonl(out / DROPPED, reader.dropped)
    counts: Counts = {
        "benchmark": config.benchmark,
        "rows": reader.rows,
        "questions": len(chosen),
        "not_sampled": len(questions) - len(chosen),
        "with_picture": sum(bool(question.image) for question in chosen),
        "gold_urls_unusable": reader.unusable_urls,
        **{f"dropped_{reason}": number for reason, number in sorted(reader.reasons.items())},
    }
    if "pages" not in inputs:
        with_gold = sum(bool(question.gold_urls) for question in chosen)
        return counts | {"questions_with_gold_url": with_gold, "questions_without_gold_url": len(chosen) - with_gold}
    coverage = question_coverage(chosen, inputs["pages"], inputs.get("redirects"))
    write_jsonl(out / OUTSIDE, [GoldOutside(*entry) for entry in coverage.outside])
    return counts | coverage.counts


@dataclass(frozen=True)
class GoldOutside:
    """A question's gold URL that isn't in the corpus."""

    query_id: str
    gold_url: str


def question_coverage(questions: list[EvalQuestion], pages: Path, redirects: Path | None) -> GoldCoverage:
    """Which of the questions' gold pages are among ``pages`` (pages.jsonl or its folder)."""
    path = pages / "pages.jsonl" if pages.is_dir() else pages
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted the pages of a corpus")
    urls = {page.page_id: page.url for page in iterate_jsonl(path, Page)}
    table = None if redirects is None else Redirects.read(redirects)
    return gold_coverage({question.query_id: question.gold_urls for question in questions}, urls, table)


class _Reader:
    """Goes through the rows once; ``reasons`` counts what was dropped."""

    def __init__(self, config: Config, out: Path, images: Path | None) -> None:
        self._config, self._entry = config, BENCHMARKS[config.benchmark]
        self._kinds = self._entry.kinds if config.kinds is None else config.kinds
        self._pictures = Pictures(out, images)
        self.rows, self.unusable_urls = 0, 0
        self.reasons: Counter[str] = Counter()
        self.dropped: list[DroppedRow] = []

    def questions(self) -> Iterator[EvalQuestion]:
        """Those that can be used."""
        seen: dict[str, str] = {}
        config = self._config
        for row in read_rows(config.files, config.split) if config.hub is None else read_hub(config.hub):
            self.rows += 1
            where = Path(row.where).name
            for found in self._entry.parse(row):
                question = self._usable(found, where, seen)
                if question is not None:
                    seen[question.query_id] = row.where
                    yield question

    def _usable(self, found: Read | Dropped, where: str, seen: dict[str, str]) -> EvalQuestion | None:
        reason = found.reason if isinstance(found, Dropped) else self._fault(found.question, where, seen)
        question = None
        if isinstance(found, Read) and reason is None:
            try:
                image = "" if found.picture is None else self._pictures.keep(found.picture)
                question = replace(found.question, image=image)
                self.unusable_urls += found.unusable_urls
            except LookupError as error:
                reason = str(error.args[0])
        if reason is not None:
            self.reasons[reason] += 1
            self.dropped.append(DroppedRow(where, reason))
        return question

    def _fault(self, question: EvalQuestion, where: str, seen: dict[str, str]) -> str | None:
        if not question.query:
            return NO_TEXT
        if self._kinds and question.kind not in self._kinds:
            return OTHER_KIND
        if " " in question.query_id or not question.query_id.isprintable():
            raise InputError(f"{where}: wanted an id without blanks, found {question.query_id!r}")
        if question.query_id in seen and self._config.duplicate_ids == "refuse":
            raise InputError(
                f"{where}: the id {question.query_id!r} stands twice (first: {seen[question.query_id]});"
                " `duplicate_ids: keep_first` keeps the first and counts the others"
            )
        return DUPLICATE if question.query_id in seen else None


def _sample(questions: list[EvalQuestion], count: int | None, seed: int) -> list[EvalQuestion]:
    """``count`` of the questions, chosen by digest of their ids, in their own order."""

    def digest(question: EvalQuestion) -> bytes:
        return hashlib.sha256(f"make_questions/{seed}/{question.query_id}".encode()).digest()

    if count is None:
        return questions
    chosen = {question.query_id for question in sorted(questions, key=digest)[:count]}
    return [question for question in questions if question.query_id in chosen]


STAGE = Stage("make_questions", Config, make_questions, schema=1)

if __name__ == "__main__":
    main(STAGE)
