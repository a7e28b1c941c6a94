"""Search over seeds by each kind of text encoder, in the index of tiles; blocks; HtmlRAG's test sets."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.partial import StageError
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.list_answers import parse_asqa
from tilewright.eval.benchmarks.multi_hop import parse_hotpotqa
from tilewright.eval.benchmarks.question import Read
from tilewright.eval.bm25 import tokens
from tilewright.eval.evidence.long_units import rough_tokens
from tilewright.eval.evidence.spire.blocks import blocks_of
from tilewright.eval.evidence.spire.document import build_document
from tilewright.eval.evidence.spire.engines import require_search
from tilewright.eval.evidence.spire.groups import htmlrag_groups
from tilewright.eval.evidence.spire.htmlrag_sets import read_htmlrag
from tilewright.eval.evidence.spire.seed_index import Bm25Engine, DenseEngine, SeedIndex
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.evidence.spire.text_encoders import (
    EndpointEncoder,
    EndpointOptions,
    OwnEncoder,
    SentenceTransformerEncoder,
    SentenceTransformerOptions,
    TextEncoder,
)
from tilewright.train.encoder import load_encoder

NUPUNKT = Segmenter("nupunkt")
PAGES = {
    "a" * 16: "<title>Rivers</title><p>The Volga is long.</p><h2>South</h2><p>It flows to a sea.</p>",
    "b" * 16: "<title>Herbs</title><p>Mint is green.</p><p>Sage is grey.</p>",
}
WORDS = ["volga", "rivers", "mint", "herbs", "long", "sea", "green", "sage", "grey", "south"]


def vector_of(text: str) -> list[float]:
    """Counts of known words: what the server and the tiny model embed by."""
    found = tokens(text)
    return [float(found.count(word)) for word in WORDS] + [0.1]


@pytest.fixture(scope="module")
def index() -> SeedIndex:
    return SeedIndex({page_id: build_document(html, NUPUNKT) for page_id, html in PAGES.items()}, "nupunkt", bare=False)


class Handler(BaseHTTPRequestHandler):
    fault = ""
    sizes: list[int] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.sizes.append(len(body["input"]))
        rows = [{"object": "embedding", "index": i, "embedding": vector_of(t)} for i, t in enumerate(body["input"])]
        rows = rows[1:] if Handler.fault == "short" else rows[::-1]
        if Handler.fault == "zero":
            rows = [row | {"embedding": [0.0, 0.0]} for row in rows]
        data = json.dumps({"object": "list", "model": body["model"], "data": rows, "usage": {}}).encode()
        self.send_response(500 if Handler.fault == "down" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[EndpointOptions]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield EndpointOptions("endpoint", "words", base_url=url, batch_size=3, max_retries=0)
    server.shutdown()


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformerOptions:
    """A sentence-transformers folder: a table of words, no download."""
    package = pytest.importorskip("sentence_transformers")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: number for number, word in enumerate([*WORDS, "[UNK]"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    static = modules.StaticEmbedding(tokenizer, embedding_weights=np.eye(len(vocabulary), dtype=np.float32))
    folder = tmp_path_factory.mktemp("st") / "model"
    package.SentenceTransformer(modules=[static], device="cpu").save(str(folder))
    return SentenceTransformerOptions("sentence_transformers", folder)


def check(encoder: TextEncoder, index: SeedIndex, folder: Path) -> None:
    """Unit vectors; the engine's order is that of the inner products; kept vectors are used again."""
    ids = sorted(index.texts)
    vectors, queries = encoder.documents([index.texts[name] for name in ids]), encoder.queries(["a sea in the south"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5) and queries.shape == (1, vectors.shape[1])
    (hits,) = DenseEngine(index.texts, encoder, folder).search(["a sea in the south"], 4)
    scores = dict(zip(ids, (vectors @ queries[0]).tolist(), strict=True))
    assert [score for _, score in hits] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-5)
    kept = np.load(folder / "vectors.npy", allow_pickle=False)
    assert np.allclose(kept, vectors, atol=1e-6)
    np.save(folder / "vectors.npy", kept[::-1].copy())
    (turned,) = DenseEngine(index.texts, encoder, folder).search(["a sea in the south"], 4)
    assert {name: ids[len(ids) - 1 - ids.index(name)] for name, _ in turned}[turned[0][0]] == hits[0][0]
    whole = (folder / "vectors.npy").read_bytes()
    np.save(folder / "vectors.npy", kept[1:])
    with pytest.raises(InputError, match=r"vectors\.npy: wanted"):
        DenseEngine(index.texts, encoder, folder)
    (folder / "vectors.npy").write_bytes(whole[:10] + b"{'descr': '<f4', ".ljust(117) + b"\n" + whole[128:])
    with pytest.raises(InputError, match=r"vectors\.npy: not a readable array"):
        DenseEngine(index.texts, encoder, folder)


def test_an_embeddings_server(index: SeedIndex, endpoint: EndpointOptions, tmp_path: Path) -> None:
    Handler.sizes.clear()
    check(EndpointEncoder(endpoint), index, tmp_path)
    assert max(Handler.sizes) == 3 and sum(Handler.sizes[:2]) == 4
    (hits,) = DenseEngine(index.texts, EndpointEncoder(endpoint)).search(["south sea"], 1)
    assert "It flows to a sea." in index.texts[hits[0][0]]


@pytest.mark.parametrize("fault", ["short", "down", "zero"])
def test_a_broken_server_is_an_error_never_a_vector(endpoint: EndpointOptions, fault: str) -> None:
    Handler.fault = fault
    try:
        with pytest.raises(StageError, match="embeddings"):
            EndpointEncoder(endpoint).queries(["a", "b"])
    finally:
        Handler.fault = ""


@pytest.mark.slow
def test_sentence_transformers(index: SeedIndex, tiny_model: SentenceTransformerOptions, tmp_path: Path) -> None:
    encoder = SentenceTransformerEncoder(tiny_model)
    check(encoder, index, tmp_path)
    assert encoder.identity == SentenceTransformerEncoder(tiny_model).identity
    with pytest.raises(InputError, match="folder"):
        SentenceTransformerEncoder(SentenceTransformerOptions("sentence_transformers", tmp_path / "none"))


def test_our_encoder(world: Any, index: SeedIndex, tmp_path: Path) -> None:
    check(OwnEncoder(load_encoder(world.paths["checkpoints"]["trained"].folder), "float32"), index, tmp_path)


def test_by_words(index: SeedIndex) -> None:
    (hits, none) = Bm25Engine(index.texts).search(["south sea", "zebra"], 3)
    assert index.places[hits[0][0]] == ("a" * 16, 1) and none == ()
    with pytest.raises(InputError, match="wanted bm25"):
        require_search("nothing", None)


def test_blocks_hold_every_sentence_once_within_their_tokens() -> None:
    html = (
        "<h1>T</h1><div><p>One. Two.</p><p>Three.</p></div><div><p>"
        + "Four five six. " * 30
        + "</p><ul><li>Seven</ul></div>"
    )
    document = build_document(html, NUPUNKT)
    blocks = blocks_of(document, rough_tokens, 40)
    assert [seed for block in blocks for seed in block.seeds] == [seed.number for seed in document.seeds]
    assert all(rough_tokens(block.text) <= 40 for block in blocks) and len(blocks) > 3
    (whole,) = blocks_of(document, rough_tokens, 10_000)
    assert whole.text.startswith("# T\nOne. Two.\nThree.")


HOTPOT = {"id": "5a", "question": "Who?", "answer": "Ada", "output": [{"answer": "Ada"}, {"answer": "A. Lovelace"}]}
ASQA = {
    "id": "-8", "question": "When?", "answer": "An essay about 1842 and 1843.",
    "qa_pairs": [{"short_answers": ["1842"]}, {"short_answers": ["1843", "1842"]}],
}  # fmt: skip
RESULTS = [{"html": "<p>Ada did.</p>", "url": "https://example.org/a"}, {"html": ""}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_htmlrag_rows_are_read(tmp_path: Path) -> None:
    rows = [row | {"slimplmqr_results": RESULTS} for row in (HOTPOT, ASQA)]
    first, second = read_htmlrag([write(tmp_path / "binghtml.jsonl", rows)])
    assert first.question.answers == ("Ada", "A. Lovelace") and second.question.answers == ("1842", "1843")
    assert [page.url for page in first.pages] == ["https://example.org/a"] and first.blank_pages == 1
    group, blank = next(htmlrag_groups([tmp_path / "binghtml.jsonl"]))
    assert list(group.html) == ["5a-00"] and blank == 1


def test_their_questions_without_pages_are_read_as_benchmarks() -> None:
    (asked,) = parse_asqa(Fields(ASQA, "row"))
    (other,) = parse_hotpotqa(Fields(HOTPOT, "row"))
    assert isinstance(asked, Read) and asked.question.answer_parts == (("1842",), ("1843", "1842"))
    assert isinstance(other, Read) and (other.question.query, other.question.answer) == ("Who?", "Ada")


@pytest.mark.parametrize(
    ("rows", "message"),
    [([HOTPOT], "_results"), ([HOTPOT | {"x_results": RESULTS}] * 2, "given twice"), ([{"id": "1"}], "answer")],
)
def test_other_rows_are_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_htmlrag([write(tmp_path / "rows.jsonl", rows)]))
