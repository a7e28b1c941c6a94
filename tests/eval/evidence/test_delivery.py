"""Tessera in a whole evaluation: for tiles, compressed tiles and text chunks, at no more tokens than each host."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, read_jsonl
from tilewright.eval.deliveries import Compressed
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.evidence.delivery import Lexical, Model, Server, Tessera
from tilewright.eval.evidence.rerankers import Endpoint
from tilewright.eval.evidence.tessera import TesseraOptions
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.retrievers.texts import TextChunks
from tilewright.eval.rows import RowSpec


def config(world: Any, out: Path, **changes: Any) -> Config:
    settings: dict[str, Any] = {
        "rows": (
            RowSpec(("bm25", "text"), ("as_is", "tessera", "added", "joint"), "string", (1, 3)),
            RowSpec("bm25", ("c4", "tessera_c4"), "string", (3,)),
        ),
        "compare": (("text.tessera.string.k3", "text.as_is.string.k3"),),
        "checkpoints": {},
        "reader_checkpoints": {},
        "pages": world.root / "pages",
        "retrievers": {"text": TextChunks("text_chunks", tokens=30)},
        "deliveries": {
            "c4": Compressed("compressed", 4.0),
            "tessera": Tessera("tessera"),
            "tessera_c4": Tessera("tessera", compression=4.0),
            "added": Tessera("tessera", options=TesseraOptions(place="added")),
            "joint": Tessera("tessera", options=TesseraOptions(place="joint")),
        },
        "readers": {"string": StringEvidence("string_evidence")},
        "read_questions": None,
    }
    return world.config(out, **(settings | changes))


@pytest.fixture(scope="module")
def records(world: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[EvalRecord]]:
    """{cell: its records} of one run."""
    out = tmp_path_factory.mktemp("tessera") / "out"
    run_stage(STAGE, config(world, out))
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


def test_yaml_names_every_choice(tmp_path: Path, world: Any) -> None:
    path = tmp_path / "evaluate.yaml"
    made = config(world, tmp_path / "out")
    assert dataclasses.replace(made).deliveries["tessera"] == Tessera("tessera")
    source = Path(__file__).parents[3] / "configs" / "eval" / "evaluate" / "smoke.yaml"
    text = source.read_text().replace(
        "deliveries:\n",
        "deliveries:\n"
        "  tessera: {kind: tessera, compression: 4.0, reranker: {kind: model, checkpoint: base},"
        " options: {anchors: 5, candidates: 50, displaced: 2, units: {pairing: dom}}}\n"
        "  served: {kind: tessera, reranker: {kind: endpoint,"
        " endpoint: {base_url: 'http://h/v1', model: m, form: score}}}\n",
    )
    path.write_text(text)
    loaded = load(path, Config, []).deliveries
    assert loaded["served"] == Tessera("tessera", Server("endpoint", Endpoint("http://h/v1", "m", "score")))
    found = loaded["tessera"]
    assert isinstance(found, Tessera) and found.reranker == Model("model", "base") != Lexical("bm25")
    assert (found.options.anchors, found.options.displaced, found.options.units.pairing) == (5, 2, "dom")


def test_what_is_missing_is_named(world: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tessera: wanted `pages`"):
        run_stage(
            STAGE,
            config(
                world,
                tmp_path / "a",
                pages=None,
                retrievers={},
                rows=(RowSpec("bm25", "tessera", "string", (1,)),),
                compare=(),
            ),
        )
    deliveries = {"tessera": Tessera("tessera", Model("model", "gone"))}
    rows = (RowSpec("bm25", "tessera", "string", (1,)),)
    with pytest.raises(InputError, match=r"reranker\.checkpoint: wanted one of \[\], found 'gone'"):
        run_stage(STAGE, config(world, tmp_path / "b", deliveries=deliveries, rows=rows, compare=()))
    with pytest.raises(ValueError, match="compression: wanted a number of at least 1"):
        Tessera("tessera", compression=0.5)
