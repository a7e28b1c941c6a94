"""What an evaluation rests on: the corpus behind the pool, stand-ins, the learning check, the stages before."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.stage import read_manifest
from tilewright.data_gen.splits import pages_of_split
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool, gold_outside
from tilewright.train.make_tiny_model import TINY_NAME
from tilewright.train.nano_family import NAME as NANO
from tilewright.train.split_files import PAGES_FILE

GROUNDED = "grounded"
OFFLINE = (GROUNDED, "cloze")  # annotators that are rules over a tile's text
LEARNED = 0.9  # training Recall@1 that the learning check wants
LISTED = 100  # questions whose gold is nowhere, in metrics.json
SEEN = ("train", "validation")  # splits whose pages training or the choice of weights has seen


RUNS = {"memorise_run": "Learning check"}


@dataclass(frozen=True)
class TrainingRun:
    """A finished training stage: the title of its curves, its manifest, its curve (rows with a ``step``)."""

    title: str
    manifest: Mapping[str, Any]
    curve: Sequence[Mapping[str, Any]]

    @property
    def counts(self) -> Mapping[str, Any]:
        """The manifest's counts."""
        found: Mapping[str, Any] = self.manifest["counts"]
        return found


def training_runs(
    inputs: Mapping[str, Path], embedders: Mapping[str, Path], readers: Mapping[str, Path]
) -> list[TrainingRun]:
    """The training runs among a stage's inputs and those of ``embedders`` and ``readers`` {checkpoint: folder}.

    Raises InputError for a folder that is none.
    """
    named = {RUNS[name]: inputs[name] for name in RUNS if name in inputs}
    named |= {f"Embedder {name}": folder for name, folder in embedders.items()}
    named |= {f"Reader {name}": folder for name, folder in readers.items()}
    return [TrainingRun(title, manifest_of(folder), read_curve(folder)) for title, folder in named.items()]


def describe(
    inputs: Mapping[str, Path],
    models: "Models",
    before: Sequence[Path],
    questions: Sequence[Question],
    annotators: Collection[str],
    pool: Pool,
    runs: Sequence[TrainingRun],
) -> dict[str, Any]:
    """The parts of metrics.json that say what the figures rest on. Raises InputError if they can't be."""
    manifests = [*map(manifest_of, before), *(run.manifest for run in runs)]
    return {
        "stand_ins": stand_ins(annotators, models, manifests),
        "pool": pool_facts(pool, inputs.get("rendered", inputs["tiles"])),
        "questions": question_facts(questions, gold_outside(questions, pool), inputs.get("splits")),
        "learning_check": learning_check(runs),
        "provenance": provenance_of(manifests),
    }


def pool_facts(pool: Pool, tiles: Path) -> dict[str, int]:
    """Counts of the tiles searched and, from the render stage's manifest if there is one, of the corpus behind them."""
    counts = manifest_of(tiles)["counts"] if (tiles / "manifest.json").exists() else {}
    pages = int(counts.get("pages", len(pool.tiles_of)))
    return {
        "n_tiles": len(pool),
        "n_pages": len(pool.tiles_of),
        "corpus_pages": pages,
        "corpus_tiles": int(counts.get("tiles_of_whole_corpus", len(pool))),
        "pages_incomplete": pages - int(counts.get("pages_complete", pages)),
    }


def question_facts(questions: Sequence[Question], outside: Sequence[str], splits: Path | None) -> dict[str, Any]:
    """Counts of the questions; ``on_{split}_pages`` must be 0 for a held-out figure (validation selects weights).

    ``outside``: questions whose gold isn't among what is searched; counted, and the first LISTED of them are listed.
    """
    seen = {split: pages_of_split(splits / PAGES_FILE, split) if splits else frozenset[str]() for split in SEEN}
    return {
        "n_questions": len(questions),
        "n_pages": len({question.cluster for question in questions}),
        "n_with_gold_page": sum(bool(question.gold_pages) for question in questions),
        "gold_outside_pool": len(outside),
        "gold_outside_listed": list(outside[:LISTED]),
        **{f"on_{split}_pages": sum(bool(q.gold_pages & pages) for q in questions) for split, pages in seen.items()},
    }


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a finished stage. Raises InputError for a folder that is none."""
    try:
        manifest = read_manifest(folder)
    except ValueError as error:
        raise InputError(str(error)) from error
    if manifest is None:
        raise InputError(f"{folder}: wanted the folder of a finished stage, found no manifest.json of one")
    request = manifest["request"]
    if not isinstance(request, dict) or not isinstance(request.get("config"), dict) or "stage" not in request:
        raise InputError(f"{folder / 'manifest.json'}: wanted a request with stage and config, found {request!r:.80}")
    if not isinstance(manifest["counts"], dict):
        raise InputError(f"{folder / 'manifest.json'}: wanted counts by name, found {manifest['counts']!r:.80}")
    return manifest


def provenance_of(manifests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stage, request identity and counts of each, for the report: nothing that differs between equal runs."""
    return [
        {
            "stage": manifest["request"]["stage"],
            "identity": str(manifest.get("identity", ""))[:16],
            "counts": manifest["counts"],
        }
        for manifest in manifests
    ]


@dataclass(frozen=True)
class Models:
    """Folders of the models that figures depend on, {name: folder}."""

    embedders: Mapping[str, Path]
    readers: Mapping[str, Path]


def stand_ins(annotators: Collection[str], models: Models, manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each stand-in that the figures depend on; ``annotators``: who made the questions."""
    lines = []
    offline = sorted({name for name in annotators if name.partition("/")[0] in OFFLINE})
    if offline:
        lines.append(
            f"Questions and answers come from the offline annotator {', '.join(offline)}: rules over each page's own"
            " text, no language model. They are made from the DOM text that the row bm25 searches, which favours that"
            " row."
        )
    judged = sorted(
        {manifest["request"]["stage"] for manifest in manifests if _uses_grounded_judge(manifest["request"]["config"])}
    )
    if judged:
        lines.append(
            f"The judge is the offline stand-in {GROUNDED} (in {', '.join(judged)}): rules over a tile's text, no"
            " language model."
        )
    expected = {"held-out recall near chance": models.embedders, "reader accuracy near zero": models.readers}
    tiny = {what: [name for name, folder in found.items() if is_tiny(folder)] for what, found in expected.items()}
    if any(tiny.values()):
        kinds = zip(("embedder", "reader"), tiny.values(), strict=True)
        names = ", ".join(f"{kind} {name}" for kind, found in kinds for name in found)
        lines.append(
            f"The models ({names}) are tiny and start from random weights. A model of this size does not"
            f" learn to read 14-px text in minutes of training: expect {' and '.join(w for w in tiny if tiny[w])}."
            " They show that the pipeline runs, not how well the method works. Their"
            " tokenizer was trained on the text of all tiles, test pages included."
        )
    return lines


def nano_lines(results: Mapping[str, RowResult]) -> list[str]:
    """What must be said of rows whose embedder is nano; none without one."""
    rows = {name: result.facts["enlarge"] for name, result in results.items() if result.facts.get("family") == NANO}
    if not rows:
        return []
    lines = [
        f"The embedders of {', '.join(rows)} are nano, a lexical reader: it matches the letters of a question with"
        " those of a tile, knows no meaning, and is no substitute for Qwen3-VL-Embedding. The questions repeat words of"
        " their tile, which suits it."
    ]
    enlarged = [name for name, times in rows.items() if times > 1]
    if enlarged:
        lines.append(
            f"{', '.join(enlarged)}: pictures are enlarged back to reading size before they are read. So a compressed"
            " tile costs as many visual tokens as a whole one: these figures are accuracy by resolution, not by tokens."
        )
    return lines


def _uses_grounded_judge(config: Mapping[str, Any]) -> bool:
    return any("judge" in key and str(value).startswith(GROUNDED) for key, value in config.items())


def is_tiny(folder: Path) -> bool:
    """Whether a model folder's card or encoder contract names the tiny stand-in."""
    for name in ("README.md", "encoder.json"):
        path = folder / name
        if path.is_file() and TINY_NAME in path.read_text(encoding="utf-8"):
            return True
    return False


def learning_check(runs: Sequence[TrainingRun]) -> dict[str, Any] | None:
    """Training recall of the run that memorises a few examples; None without one.

    Raises InputError if that run didn't search its training queries.
    """
    counts = next((run.counts for run in runs if run.title == RUNS["memorise_run"]), None)
    if counts is None:
        return None
    if "train_recall_at_1" not in counts:
        raise InputError("memorise_run: the run has no train_recall_at_1: set train_recall_every in its config")
    pool = counts["train_recall_pool"]
    return {
        "recall@1": counts["train_recall_at_1"],
        "n_examples": pool["queries"],
        "n_tiles": pool["tiles"],
        "chance": counts["train_chance_at_1"],
        "wanted": LEARNED,
    }


def read_curve(folder: Path) -> list[dict[str, Any]]:
    """curve.jsonl of a training run's folder. Raises InputError if it is missing or a line has no step."""
    path = folder / "curve.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable training curve ({error})") from error
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise InputError(f"{path}:{number}: wanted an object with a whole number `step`")
    return rows
