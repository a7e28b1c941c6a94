"""Parts of the report: escaping, charts, tables, pictures."""

import base64
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.report.curves import figures_of
from tilewright.eval.report.markup import Markup, join, table, tag, text, void
from tilewright.eval.report.pictures import data_urls, write_pictures
from tilewright.eval.report.plots import Line, line_chart, ticks


@given(st.text(st.characters(exclude_characters="\ufffe\uffff", exclude_categories=["Cs"])))
def test_any_text_survives_as_text_and_nothing_else(value: str) -> None:
    parsed = ElementTree.fromstring(tag("p", value, title=value))
    shown = "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in value)
    assert not list(parsed)
    assert (parsed.text or "") == shown


def test_markup() -> None:
    assert text("<b>") == "&lt;b&gt;" and text(Markup("<b>")) == "<b>"
    assert text("half \ud83d") == "half ?" and text("\x00\x1b") == "\ufffd\ufffd"
    assert tag("a", "x", class_="y", aria_label='"') == '<a class="y" aria-label="&quot;">x</a>'
    assert tag("a", class_=None) == "<a></a>" and void("br") == "<br>"
    assert join(["<", Markup("<i>")], " ") == "&lt; <i>"
    assert "&lt;script&gt;" in table(["<script>"], [["a", "b"]], "c")


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_cover_the_range_evenly(low: float, width: float) -> None:
    found = ticks(low, low + width)
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert found[0] <= low + slack and found[-1] >= low + width - slack
    assert 2 <= len(found) <= 13


def test_charts_are_well_formed_and_name_their_series() -> None:
    chart = line_chart("Loss <1>", [Line("train & co", [(0, 4.2), (10, 0.5)]), Line("chance", [(0, 1), (10, 1)], True)],
                       "step", "loss", None)  # fmt: skip
    figure = ElementTree.fromstring(chart)
    assert len(figure.findall(".//polyline")) == 2
    assert "train & co: 4.2 → 0.5" in "".join(figure.itertext())
    assert "No curve" in line_chart("Empty", [Line("x", [])], "step", "loss", None)
    assert ElementTree.fromstring(line_chart("One", [Line("x", [(3, 2.0)])], "step", "loss", None)).findall(".//circle")


def test_curves_find_losses_and_shares_by_name() -> None:
    curve = [
        {"step": 0, "validation_recall_at_1": 0.1, "validation_recall_at_3": 0.3, "validation_mrr": 0.2},
        {"step": 1, "loss": 3.0, "learning_rate": 0.1, "note": "x"},
    ]
    loss, recall = figures_of("Embedder", curve, {"validation_chance_at_1": 0.05, "train_chance_at_1": 0.5})
    assert "loss: 3" in loss and "learning rate" not in loss
    assert "validation Recall@1: 0.1" in recall and "validation Recall@1, chance: 0.05" in recall
    assert "Recall@3" not in recall and "mrr" not in recall and "0.5" not in recall.partition("<ul")[2]
    for beats, said in ((True, "step 4 kept: better in"), (False, "step 4 kept: NOT better in"), (None, "recall<")):
        assert said in figures_of("Embedder", curve, {"kept_step": 4, "best_beats_start": beats})[1]
    (only,) = figures_of("Reader", [{"step": 1, "loss": 2.0}], {})
    assert "Reader: loss" in only
    _, matches = figures_of("Reader", [{"step": 1, "loss": 2.0, "validation_exact_match": 0.25}], {})
    assert "Reader: exact match" in matches and "validation exact match: 0.25" in matches


class Pictures(TileStore):
    """Noisy pictures: they don't compress well."""

    def __init__(self) -> None:
        self.images = {name: Image.effect_noise((875, 1024), 80).convert("RGB") for name in ("a", "b")}

    def image(self, tile_id: str) -> Image.Image:
        return self.images[tile_id]


@pytest.mark.parametrize(("budget", "widths"), [(10**9, {480}), (150_000, {160, 240, 320}), (1, {100})])
def test_pictures_fit_their_budget(budget: int, widths: set[int]) -> None:
    urls = data_urls(Pictures(), ["a", "b", "a"], budget_bytes=budget)
    pictures = {Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).width for url in urls.values()}
    assert set(urls) == {"a", "b"} and len(pictures) == 1 and pictures <= widths
    if budget > 1:
        assert 2 * len(urls["a"]) + len(urls["b"]) <= budget


def test_small_pictures_are_not_enlarged_and_bytes_repeat(tmp_path: Path) -> None:
    store = Pictures()
    store.images["a"] = Image.new("RGB", (90, 40), "white")
    first = data_urls(store, ["a"], budget_bytes=10**6)
    assert first == data_urls(store, ["a"], budget_bytes=10**6)
    assert Image.open(io.BytesIO(base64.b64decode(first["a"].partition(",")[2]))).size == (90, 40)


def test_pictures_beside_the_report_have_plain_names(tmp_path: Path) -> None:
    store, good, evil = Pictures(), "0" * 16 + "-0000-00", "../" + "0" * 13 + "-0000-00"
    store.images = {name: Image.new("RGB", (90, 40), "white") for name in (good, evil)}
    write_pictures(store, [good], tmp_path / "beside")
    with pytest.raises(InputError, match="16 hex"):
        write_pictures(store, [evil], tmp_path / "beside")
    assert [path.name for path in tmp_path.rglob("*.webp")] == [f"{good}.webp"]
