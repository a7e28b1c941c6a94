"""Rows whose items are changed before they are read: OCR text, drawn texts; texts from wikitext; texts by vectors; a
question's own picture. On the small world, in whole runs."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.eval.workshops import workshop_of

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, Page, read_jsonl, write_jsonl
from tilewright.data_gen.urls import page_id
from tilewright.eval.cache import Cache
from tilewright.eval.deliveries import OcrText, RenderedText
from tilewright.eval.evaluate import STAGE
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Question
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.retrievers.texts import TextChunks
from tilewright.eval.retrievers.tiles import CheckpointTiles
from tilewright.eval.rows import RowSpec
from tilewright.eval.workshop import Workshop
from tilewright.train.encoder import load_encoder

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">
<siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>
<page><title>Mill</title><ns>0</ns><id>1</id><revision><id>1</id>
<text>'''Mill''' is a [[village|small village]].{{Infobox|x=1}}&lt;ref&gt;a note&lt;/ref&gt;</text></revision></page>
</mediawiki>
"""


@pytest.mark.browser
def test_ocr_text_and_drawn_texts_reach_the_reader(world: Any, tmp_path: Path) -> None:
    rows = (
        RowSpec("bm25", "ocr", "dom", (1,)),
        RowSpec(("bm25", "text"), "drawn", "ocr", (1,)),
    )
    changes: dict[str, Any] = {
        "rows": rows,
        "compare": (),
        "checkpoints": {},
        "reader_checkpoints": {},
        "pages": world.root / "pages",
        "retrievers": {"text": TextChunks("text_chunks", tokens=12)},
        "deliveries": {"ocr": OcrText("ocr"), "drawn": RenderedText("rendered_text", 1.0)},
        "readers": {"dom": StringEvidence("string_evidence"), "ocr": StringEvidence("string_evidence", "ocr")},
        "read_questions": None,
    }
    out = tmp_path / "out"
    run_stage(STAGE, world.config(out, **changes))
    cells = {cell["name"]: cell for cell in json.loads((out / "metrics.json").read_text())["readers"]}
    read = {name: read_jsonl(out / "records" / f"{name}.jsonl", EvalRecord) for name in cells}
    assert {cell["status"] for cell in cells.values()} == {"complete"}
    given = {name: [item for record in records for item in record.given] for name, records in read.items()}
    assert {item.source for item in given["bm25.ocr.dom.k1"]} == {"ocr"}
    assert all(record.visual_tokens == 0 < record.retrieved_text_tokens for record in read["bm25.ocr.dom.k1"])
    assert cells["bm25.ocr.dom.k1"]["accuracy"]["alias"]["value"] >= 0.25, "of 4 years in 8 answers"
    assert {item.source for item in given["text.drawn.ocr.k1"]} == {"rendered_text"}
    assert {item.source for item in given["bm25.drawn.ocr.k1"]} == {"tile"}, "tiles are pictures already"
    assert all(record.visual_tokens > 0 == record.retrieved_text_tokens for record in read["text.drawn.ocr.k1"])
    assert cells["text.drawn.ocr.k1"]["accuracy"]["alias"]["value"] >= 0.25, "what was drawn can be read"


def test_wikitext_is_read_without_its_marks(tmp_path: Path) -> None:
    url = "https://en.wikipedia.org/wiki/Mill"
    other = "https://en.wikipedia.org/wiki/Gone"
    (tmp_path / "pages" / "documents").mkdir(parents=True)
    pages = []
    for address in (url, other):
        path = f"documents/{page_id(address)}.html"
        (tmp_path / "pages" / path).write_text("<html></html>")
        pages.append(Page(page_id(address), address, "t", path, "wiki_dump"))
    write_jsonl(tmp_path / "pages" / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
    (tmp_path / "dump.xml").write_text(DUMP)
    opened = Pages.open(tmp_path / "pages", [page.page_id for page in pages], tmp_path / "dump.xml")
    texts, errors = opened.texts("mwparserfromhell", Cache(tmp_path / "cache"))
    assert texts == {page_id(url): "Mill is a small village."} or texts[page_id(url)].startswith("Mill is a small")
    assert not set("[]{}'<>") & set(texts[page_id(url)])
    assert errors == {page_id(other): "the page has no wikitext in the dump"}


def test_texts_by_an_encoders_vectors_are_searched_exactly(world: Any, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "rows": ("dense",),
        "compare": (),
        "reader_checkpoints": {},
        "readers": {},
        "pages": world.root / "pages",
        "retrievers": {"dense": TextChunks("text_chunks", tokens=12, search="trained")},
    }
    run_stage(STAGE, world.config(tmp_path / "out", **changes))
    records = read_jsonl(tmp_path / "out" / "records" / "dense.jsonl", EvalRecord)
    assert len(records) == 8 and all(len(record.hits) == 12 for record in records)
    for record in records:
        scores = [score for _, score in record.hits]
        assert scores == sorted(scores, reverse=True) and -1.001 <= scores[-1] <= scores[0] <= 1.001
    encoder = load_encoder(world.paths["checkpoints"]["trained"].folder)
    again = encoder.encode_queries([records[0].query])
    assert again.shape[1] == encoder.dimension


def test_a_questions_picture_is_embedded_with_its_words(world: Any, tmp_path: Path) -> None:
    encoded = io.BytesIO()
    Image.new("RGB", (96, 64), "navy").save(encoded, "PNG")
    plain = Question("q", "Which town?", ("a",))
    asked = [plain, dataclasses.replace(plain, query_id="p", picture=encoded.getvalue())]
    workshop = small_workshop(world, tmp_path)
    row = CheckpointTiles("trained", world.paths["checkpoints"]["trained"], workshop)
    found = row.search(asked, 12).hits
    encoder = load_encoder(world.paths["checkpoints"]["trained"].folder)
    picture = Image.open(io.BytesIO(encoded.getvalue()))
    vectors = encoder.encode_queries([plain.query, plain.query], [None, picture]).numpy()
    tiles = encoder.encode_tiles([workshop.store.image(name) for name in workshop.store.tile_ids]).numpy()
    for name, vector in zip(("q", "p"), vectors, strict=True):
        wanted = dict(zip(workshop.store.tile_ids, (tiles @ vector).tolist(), strict=True))
        assert all(abs(wanted[tile] - score) < 1e-4 for tile, score in found[name])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3, "the picture counts"


def small_workshop(world: Any, folder: Path) -> Workshop:
    return workshop_of(world.paths["tiles"], folder, checkpoints=world.paths["checkpoints"], device="cpu")
