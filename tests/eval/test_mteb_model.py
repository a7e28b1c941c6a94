"""Our encoder inside mteb's real API: a small task of page images, whose scores equal our own on the same vectors.

Needs the extra ``mteb`` (`make test-all` installs it).
"""

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.errors import InputError, UserError
from tilewright.configs.stage import StageError, run_stage
from tilewright.eval.evaluate_mteb import Config, run_tasks
from tilewright.eval.mteb_model import BENCHMARKS, MtebEncoder, mteb_tasks, run_task
from tilewright.train import make_nano
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.retrieval_metrics import mean_reciprocal_rank, recall_at_k

INSTALLED = importlib.util.find_spec("mteb") is not None
needs_mteb = pytest.mark.skipif(not INSTALLED, reason="needs the extra mteb")
NAMES = ("Harrow", "Velkirk", "Lindquay", "Ostermoor", "Tamsin", "Sorrel", "Castellan", "Brandt")
TEXTS = {f"q{number}": f"Where is the old mill of {name}?" for number, name in enumerate(NAMES)}
RELEVANT = {
    f"q{number}": {f"d{number}": 1} | ({f"d{(number + 3) % 8}": 1} if number % 2 else {}) for number in range(8)
}


@pytest.fixture
def tiny(world: Any) -> Encoder:
    return load_encoder(world.root / "tiny" / "embedder")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Nano, which reads a little: no ranking by chance."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("nano") / "nano"
    run_stage(make_nano.STAGE, make_nano.Config(folder, "nano"))
    return load_encoder(folder / "embedder")


def page(number: int) -> Image.Image:
    """Of several sizes, one with transparency: as a data set holds them. Names its place, and in small the next one."""
    image = Image.new("RGBA" if number == 3 else "RGB", (320 + 32 * (number % 3), 96), "white")
    draw = ImageDraw.Draw(image)
    draw.text((8, 20), f"The old mill of {NAMES[number]}", fill="black", font=ImageFont.load_default(size=20))
    draw.text((8, 60), f"near {NAMES[(number + 1) % 8]}", fill="black", font=ImageFont.load_default(size=20))
    return image


class Kind:
    """Stands for mteb's PromptType in tests without it."""

    def __init__(self, value: str) -> None:
        self.value = value


def test_batches_become_the_encoders_own_vectors(tiny: Encoder) -> None:
    model = MtebEncoder(tiny)
    images = [page(number) for number in range(3)]
    batches = [{"text": ["one", "two"]}, {"text": ["three"], "image": images[:1]}]
    queries = model.encode(batches, prompt_type=Kind("query"))
    assert queries.dtype == np.float32 and queries.shape == (3, tiny.dimension)
    expected = tiny.encode_queries(["one", "two", "three"], [None, None, images[0]]).numpy()
    assert np.allclose(queries, expected, atol=1e-5)
    documents = model.encode([{"image": images[:2]}, {"image": images[2:]}], prompt_type="document")
    assert np.allclose(documents, tiny.encode_tiles(images).numpy(), atol=1e-5)
    assert np.allclose(model.similarity(queries, documents), queries @ documents.T, atol=1e-6)
    assert np.allclose(model.similarity_pairwise(queries, documents), (queries * documents).sum(1), atol=1e-6)
    assert model.encode([], prompt_type="query").shape == (0, tiny.dimension)


def test_what_cannot_be_embedded_is_refused(tiny: Encoder) -> None:
    model = MtebEncoder(tiny)
    with pytest.raises(InputError, match=r"wanted page images, .* found \['text'\]"):
        model.encode([{"text": ["a page"]}], prompt_type="document")
    with pytest.raises(InputError, match=r"wanted text or image, found \['audio'\]"):
        model.encode([{"audio": [1]}], prompt_type="query")
    with pytest.raises(InputError, match="wanted query or document"):
        model.encode([{"text": ["x"]}])


@pytest.mark.skipif(INSTALLED, reason="mteb is installed")
def test_without_mteb_the_error_names_the_extra() -> None:
    with pytest.raises(UserError, match=r"pip install tilewright\[mteb\]"):
        mteb_tasks(BENCHMARKS, [])


def local_task() -> Any:
    """A task of mteb's own class whose data are made here."""
    import datasets
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalPages(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="LocalPagesRetrieval",
            description="Pages of one colour.",
            reference="https://example.org",
            dataset={"path": "local", "revision": "0"},
            type="DocumentUnderstanding",
            category="t2i",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_5",
            date=("2026-01-01", "2026-01-02"),
            domains=["Academic"],
            task_subtypes=["Image Text Retrieval"],
            license="mit",
            annotations_creators="derived",
            dialect=[],
            modalities=["text", "image"],
            sample_creation="created",
            bibtex_citation="",
        )

        def load_data(self, num_proc: int | None = None, **options: Any) -> None:
            features = datasets.Features({"id": datasets.Value("string"), "image": datasets.Image()})
            pages = [{"id": f"d{number}", "image": page(number)} for number in range(8)]
            queries = [{"id": query_id, "text": text} for query_id, text in TEXTS.items()]
            self.corpus = {"test": datasets.Dataset.from_list(pages, features=features)}
            self.queries = {"test": datasets.Dataset.from_list(queries)}
            self.relevant_docs = {"test": RELEVANT}
            self.data_loaded = True

    return LocalPages()


def ndcg(order: list[str], relevant: set[str], k: int) -> float:
    """Järvelin and Kekäläinen (2002) for relevance 0 or 1."""
    gain = sum(1 / math.log2(rank + 1) for rank, item in enumerate(order[:k], start=1) if item in relevant)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))


@needs_mteb
@pytest.mark.slow
def test_a_task_through_mteb_scores_as_we_do(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "cache"))
    from mteb.models import EncoderProtocol

    model = MtebEncoder(encoder)
    assert isinstance(model, EncoderProtocol)
    found = run_task(model, local_task(), batch_size=3)
    scores = found["scores"]["test"]["default"]
    similarity = (
        encoder.encode_queries(list(TEXTS.values()))
        @ encoder.encode_tiles([page(number).convert("RGB") for number in range(8)]).T
    )
    ranked = similarity.argsort(dim=1, descending=True).tolist()
    order = {query_id: [f"d{number}" for number in ranked[row]] for row, query_id in enumerate(TEXTS)}
    relevant = {query_id: set(items) for query_id, items in RELEVANT.items()}
    assert len({tuple(items) for items in order.values()}) > 1 and order != {
        q: sorted(items) for q, items in order.items()
    }
    for k in (1, 3, 5):
        assert scores[f"recall_at_{k}"] == pytest.approx(recall_at_k(order, relevant, k), abs=1e-5)
        mean = sum(ndcg(order[query_id], relevant[query_id], k) for query_id in TEXTS) / len(TEXTS)
        assert scores[f"ndcg_at_{k}"] == pytest.approx(mean, abs=1e-5)
        cut = {query_id: items[:k] for query_id, items in order.items()}
        assert scores[f"mrr_at_{k}"] == pytest.approx(mean_reciprocal_rank(cut, relevant), abs=1e-5)
    assert found["value"] == pytest.approx(scores["ndcg_at_5"], abs=1e-9) and found["main_score"] == "ndcg_at_5"
    assert 0 < found["value"] < 1 and model.mteb_model_meta.revision == encoder.hash
    assert not list(tmp_path.rglob("*.json"))  # mteb keeps no result of its own


@needs_mteb
@pytest.mark.slow
def test_vidore_is_known_by_name() -> None:
    tasks = mteb_tasks(BENCHMARKS, ["VidoreDocVQARetrieval"])
    names = [task.metadata.name for task in tasks]
    assert len(names) == len(set(names)) >= 22 and {task.metadata.category for task in tasks} == {"t2i"}
    for wrong in ((["ViDoRe(v9)"], []), ([], ["NoSuchRetrieval"])):
        with pytest.raises(InputError, match="mteb: "):
            mteb_tasks(*wrong)


@needs_mteb
@pytest.mark.slow
def test_tasks_are_journalled_and_one_that_cannot_be_run_is_an_error(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (missing,) = mteb_tasks([], ["VidoreTabfquadRetrieval"])
    missing.metadata.dataset["path"] = str(tmp_path / "no such data set")
    model = MtebEncoder(encoder)
    with pytest.raises(StageError, match="1 of 2 items failed"):
        run_tasks(model, [local_task(), missing], tmp_path, batch_size=4, max_error_share=0.0)
    broken = local_task()
    monkeypatch.setattr(broken, "load_data", None)  # the finished one isn't run again
    found = run_tasks(model, [broken, missing], tmp_path, batch_size=4, max_error_share=0.5)
    assert list(found) == ["LocalPagesRetrieval"] and math.isfinite(found["LocalPagesRetrieval"]["value"])


def test_a_config_names_something_to_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one benchmark or task"):
        Config(tmp_path, tmp_path, benchmarks=())
