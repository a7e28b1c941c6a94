"""Tessera in a whole evaluation: for tiles, compressed tiles and text chunks, at no more tokens than each host."""

import dataclasses
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.eval.workshops import workshop_of

from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, Page, read_jsonl, write_jsonl
from tilewright.eval.agent.tool import RowTool
from tilewright.eval.cache import Cache
from tilewright.eval.deliveries import OcrText
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.evidence.delivery import Lexical, Model, Server, Tessera, TesseraDelivery
from tilewright.eval.evidence.remedies import HtmlRag
from tilewright.eval.evidence.rerankers import Endpoint
from tilewright.eval.evidence.spire.rows import SpireSeeds
from tilewright.eval.evidence.tessera import TesseraOptions
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Delivered, Item, Question, Ranked
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.registry import Registry
from tilewright.eval.retrievers.texts import DomChunks, TextChunks
from tilewright.eval.rows import RowSpec
from tilewright.eval.workshop import Workshop

ROOT = Path(__file__).parents[3]
CONFIGS, README = ROOT / "configs" / "eval" / "evaluate", ROOT / "README.md"


def config(world: Any, out: Path, **changes: Any) -> Config:
    """The smoke config over the small world."""
    paths = {"tiles": world.paths["tiles"], "pages": world.root / "pages", "pairs": world.paths["pairs"], "out": out}
    made = load(CONFIGS / "tessera_smoke.yaml", Config, [f"{name}={path}" for name, path in paths.items()])
    return dataclasses.replace(made, **changes)


@pytest.fixture(scope="module")
def out(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run."""
    made = tmp_path_factory.mktemp("tessera") / "out"
    run_stage(STAGE, config(world, made))
    return made


@pytest.fixture(scope="module")
def records(out: Path) -> dict[str, list[EvalRecord]]:
    """{cell: its records}."""
    return {path.stem: list(read_jsonl(path, EvalRecord)) for path in (out / "records").glob("*.jsonl")}


@pytest.mark.parametrize(
    ("host", "with_block"),
    [
        ("bm25.as_is.string.k1", "bm25.tessera.string.k1"),
        ("bm25.as_is.string.k3", "bm25.tessera.string.k3"),
        ("bm25.c4.string.k3", "bm25.tessera_c4.string.k3"),
        ("text.as_is.string.k1", "text.tessera.string.k1"),
        ("text.as_is.string.k3", "text.tessera.string.k3"),
        ("text.as_is.string.k3", "text.joint.string.k3"),
    ],
)
def test_each_question_costs_no_more_than_its_host(
    records: dict[str, list[EvalRecord]], host: str, with_block: str
) -> None:
    pairs = list(zip(records[host], records[with_block], strict=True))
    assert len(pairs) == 8
    blocks = 0
    for before, after in pairs:
        assert before.query_id == after.query_id and before.hits == after.hits and after.error is None
        assert sum(item.tokens for item in after.given) <= sum(item.tokens for item in before.given)
        has_block = after.given[-1].source == "tessera"
        blocks += has_block
        if "joint" in with_block:
            continue
        kept = after.given[:-1] if has_block else after.given
        assert kept == before.given[: len(kept)] and len(after.given) == len(before.given)
        assert has_block != any(flag.startswith("tessera_fallback") for flag in after.flags)
    assert blocks >= 4, "else nothing was compared"


def test_a_block_beside_all_items_costs_more(records: dict[str, list[EvalRecord]]) -> None:
    for before, after in zip(records["text.as_is.string.k1"], records["text.added.string.k1"], strict=True):
        assert after.given[:1] == before.given and after.given[1].source == "tessera"


def test_the_block_holds_what_the_question_asks(records: dict[str, list[EvalRecord]]) -> None:
    asked = [record for record in records["bm25.tessera.string.k3"] if record.query.startswith("When was")]
    founded = [record for record in asked if "Founded | 17" in record.given[-1].text]
    assert len(asked) == 4 and len(founded) == 4
    assert all(record.verdict == "CORRECT" for record in founded)


def test_the_report_traces_the_answers_of_every_row(out: Path) -> None:
    traces = json.loads((out / "metrics.json").read_text())["analyses"]["evidence_trace"]
    assert len(traces) == 18 and {found["n"] for found in traces.values()} == {8}
    for name, found in traces.items():
        loose = found["tolerant"]
        assert loose["source"] == 5 / 8, "the world's other three answers stand on no page"
        stored = 5 / 8 if name.startswith("text") else 4 / 8  # a tile doesn't show its page's title
        assert loose["extraction"] == loose["stored"] == loose["candidates"] == stored
        assert round(found["n"] * (1 - loose["reader"])) == sum(found["lost"].values())
    assert traces["text.as_is.string.k1"]["lost"]["reader"] == 1 > traces["text.tessera.string.k1"]["lost"]["reader"]
    assert traces["bm25.tessera.string.k3"]["recovered"] == 1 > traces["bm25.as_is.string.k3"]["recovered"]
    assert "Evidence trace" in (out / "report.html").read_text()


def test_yaml_names_every_choice(tmp_path: Path) -> None:
    path = tmp_path / "evaluate.yaml"
    text = (CONFIGS / "tessera_smoke.yaml").read_text()
    reranked = "{kind: model, checkpoint: base}, options: {anchors: 5, candidates: 50, units: {pairing: dom}}}"
    path.write_text(text.replace("{kind: tessera}", "{kind: tessera, reranker: " + reranked))
    found = load(path, Config, []).deliveries["tessera"]
    assert isinstance(found, Tessera) and found.reranker == Model("model", "base") != Lexical("bm25")
    assert (found.options.anchors, found.options.candidates, found.options.units.pairing) == (5, 50, "dom")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("tessera*.yaml")), ids=lambda path: path.stem)
def test_each_config_sets_blocks_beside_their_hosts(path: Path) -> None:
    loaded = load(path, Config, [])
    assert any(isinstance(delivery, Tessera) for delivery in loaded.deliveries.values())
    assert path.stem == "tessera_smoke" or all(
        right.split(".")[1] != left.split(".")[1] for left, right in loaded.compare
    )


def test_the_readme_shows_a_config_that_loads(tmp_path: Path) -> None:
    section = README.read_text().split("## Tables and lists that the reader would miss")[1].split("\n## ")[0]
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1])  # type: ignore[index]
    settings = yaml.safe_load((CONFIGS / "tessera_smoke.yaml").read_text()) | shown
    settings["checkpoints"] = {"trained": {"title": "trained", "folder": "trained"}}
    settings["compare"] = []
    path = tmp_path / "readme.yaml"
    path.write_text(yaml.safe_dump(settings))
    found = load(path, Config, []).deliveries
    endpoint = Endpoint("http://localhost:8000/v1", "Qwen/Qwen3-Reranker-0.6B")
    assert found["tessera"] == Tessera("tessera") and found["reranked"] == Tessera(
        "tessera", Server("endpoint", endpoint)
    )
    assert found["wide"] == Tessera("tessera", options=TesseraOptions(displaced=2, siblings=1))
    assert found["html"] == HtmlRag("html_rag")


def test_what_is_missing_is_named(world: Any, tmp_path: Path) -> None:
    rows = (RowSpec("bm25", "tessera", "string", (1,)),)
    alone: dict[str, Any] = {"rows": rows, "compare": (), "retrievers": {}}
    with pytest.raises(InputError, match="tessera: wanted `pages`"):
        run_stage(STAGE, config(world, tmp_path / "a", pages=None, **alone))
    deliveries = {"tessera": Tessera("tessera", Model("model", "gone"))}
    with pytest.raises(InputError, match=r"reranker\.checkpoint: wanted one of \[\], found 'gone'"):
        run_stage(STAGE, config(world, tmp_path / "b", deliveries=deliveries, **alone))
    with pytest.raises(ValueError, match="compression: wanted a number of at least 1"):
        Tessera("tessera", compression=0.5)


def with_pages(world: Any, folder: Path) -> Workshop:
    workshop = workshop_of(world.root / "tiles", folder, cache=Cache(folder))
    return dataclasses.replace(workshop, pages=Pages.open(world.root / "pages", workshop.pool.tiles_of))


def registry_of(world: Any, folder: Path, tessera: Tessera) -> Registry:
    texts = TextChunks("text_chunks", tokens=30)
    readers = {"string": StringEvidence("string_evidence")}
    return Registry(with_pages(world, folder), {"text": texts}, {"tessera": tessera}, readers)


@pytest.mark.parametrize("host", ["text", "bm25"])
def test_an_agent_searches_with_it(world: Any, tmp_path: Path, host: str) -> None:
    registry = registry_of(world, tmp_path, Tessera("tessera"))
    cost = registry.reader("string").cost
    given = {}
    for name in ("as_is", "tessera"):
        tool = RowTool(registry.retriever(host), registry.delivery(name), 3, 12, cost, ThreadPoolExecutor(1))
        given[name] = tool.found(Question("q", "the agent's task", ("1701",)), "When was Lisbon founded?").items
        tool.close()
    assert given["tessera"][:-1] == given["as_is"][:-1] and given["tessera"][-1].source == "tessera"
    assert sum(map(cost, given["tessera"])) <= sum(map(cost, given["as_is"]))
    assert "Founded | 1701" in given["tessera"][-1].text


def test_a_host_of_ocr_gives_what_was_read(world: Any, tmp_path: Path) -> None:
    workshop = with_pages(world, tmp_path)
    errors: dict[str, str] = {}
    workshop.once("ocr", lambda: (workshop.dom_texts, errors))  # as if tesseract had read each letter
    deliveries: dict[str, Any] = {"ocr": OcrText("ocr"), "tessera": Tessera("tessera", pictures="ocr")}
    registry = Registry(workshop, {}, deliveries, {"string": StringEvidence("string_evidence")})
    retriever, real = registry.retriever("bm25"), registry.reader("string").cost
    question = Question("q", "When was Lisbon founded?", ("1701",))
    ranked = Ranked(retriever, retriever.search([question], 12).hits["q"])

    def cost(item: Item) -> int:
        """What was read costs enough for a block in its place."""
        return 60 if item.source == "ocr" else real(item)

    host, given = (registry.delivery(name).deliver(question, ranked, 3, cost).items for name in deliveries)
    errors |= {item.item_id: "broken" for item in ranked[3:]}  # the reader gets none of these
    assert len(errors) > 0 and registry.delivery("tessera").deliver(question, ranked, 3, cost).items == given
    assert given[:-1] == host[:-1] and {item.source for item in host} == {"ocr"} and given[-1].source == "tessera"
    assert sum(map(cost, given)) <= sum(map(cost, host)) and all(item.picture is None for item in given)
    identities = {
        registry.delivery("tessera").identity,
        registry_of(world, tmp_path, Tessera("tessera")).delivery("tessera").identity,
    }
    assert len(identities) == 2


def test_tiles_texts_sentences_and_blocks_are_of_the_same_pages(world: Any, tmp_path: Path) -> None:
    workshop = with_pages(world, tmp_path)
    retrievers: dict[str, Any] = {
        "text": TextChunks("text_chunks"),
        "dom": DomChunks("dom_chunks"),
        "seeds": SpireSeeds("spire_seeds", segmenter="rule"),
    }
    registry = Registry(workshop, retrievers, {"tessera": Tessera("tessera")}, {})
    pages = set(workshop.pool.tiles_of)
    with workshop.cache.locked():
        found = {name: set(registry.retriever(name).page_of.values()) for name in ("bm25", *retrievers)}
    block = registry.delivery("tessera")
    assert isinstance(block, TesseraDelivery) and {page for page in pages if block.html(page)} == pages
    assert found == dict.fromkeys(found, pages) and block.html("0" * 16) is None


@pytest.mark.slow
def test_the_block_as_a_picture_keeps_the_budget(world: Any, tmp_path: Path) -> None:
    """A browser a question; the picture shows fewer units where not all of them fit, and none where not one does."""
    registry = registry_of(world, tmp_path, Tessera("tessera", form="image"))
    retriever, delivery, real = registry.retriever("bm25"), registry.delivery("tessera"), registry.reader("string").cost
    question = Question("q", "When was Lisbon founded?", ("1701",))
    ranked = Ranked(retriever, retriever.search([question], 12).hits["q"])

    def delivered(budget: int) -> Delivered:
        """Units cost little as text, so that the picture alone decides."""
        costs = {"tessera": lambda item: real(item) if item.picture else len(item.text) // 100}
        return delivery.deliver(question, ranked, 3, lambda item: costs.get(item.source, lambda item: budget)(item))

    with registry.workshop.cache.locked():
        all_of_it, part, nothing = delivered(2000), delivered(200), delivered(30)
    host = [retriever.item(name) for name, _ in retriever.search([question], 12).hits["q"][:3]]
    assert nothing.flags == ("tessera_fallback: no picture fits",) and list(nothing.items) == host
    blocks = [found.items[-1] for found in (all_of_it, part)]
    assert [real(block) <= budget for block, budget in zip(blocks, (2000, 200), strict=True)] == [True, True]
    assert all(block.picture and "1701" in block.text for block in blocks)
    assert len(blocks[1].text) < len(blocks[0].text) and list(part.items[:-1]) == host[:2]


def test_extraction_in_recall_mode_keeps_more(tmp_path: Path) -> None:
    """And apart from the usual one's results in the cache."""
    (tmp_path / "documents").mkdir()
    prose = "<p>" + "A long sentence about the town and its river and its people. " * 20 + "</p>"
    document = f"<article><h1>T</h1>{prose}<div class=teaser><p>A teaser of 88 words.</p></div></article>"
    (tmp_path / "documents" / "p.html").write_text(document)
    write_jsonl(tmp_path / "pages.jsonl", [Page("p", "https://example.org/p", "T", "documents/p.html", "html_folder")])
    pages, cache = Pages.open(tmp_path, ["p"]), Cache(tmp_path / "cache")
    with cache.locked():
        usual, more = pages.texts("trafilatura", cache)[0]["p"], pages.texts("trafilatura_recall", cache)[0]["p"]
    assert "88" not in usual and "88" in more and usual.split()[:20] == more.split()[:20]


def test_marks_cost_what_words_do(world: Any, tmp_path: Path) -> None:
    workshop = with_pages(world, tmp_path)
    assert workshop.counter("words")("# A > B\nx | 1,5") == 5
    assert workshop.counter("words_and_marks")("# A > B\nx | 1,5") == 9
    with pytest.raises(InputError, match="tokenizer: wanted 'words', 'words_and_marks' or a checkpoint"):
        workshop.counter("gone")
