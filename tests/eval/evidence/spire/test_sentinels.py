"""Sentence marks: nothing is moved, copied or lost, and taking them out gives the tree back."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tilewright.eval.evidence.html_tree import Node, parse_html
from tilewright.eval.evidence.spire import sentinels
from tilewright.eval.evidence.spire.document import build_document, document_id
from tilewright.eval.evidence.spire.segmenters import Segmenter

PAGES = runpy.run_path(str(Path(__file__).with_name("random_pages.py")))["PAGES"]
SEGMENTERS = [Segmenter("nupunkt"), Segmenter("rule")]


def shape(node: Node) -> Any:
    return (node.tag, tuple(sorted(node.attributes.items())), node.text, tuple(shape(child) for child in node.children))


def collapsed(html: str) -> Node:
    root = parse_html(html).root
    for node in root.walk():
        if not node.tag and node.text.isspace():
            node.text = " "
    return root


def seeds_of(html: str) -> list[str]:
    return [seed.text for seed in build_document(html, SEGMENTERS[0]).seeds]


@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=lambda one: one.name)
@given(html=PAGES)
@settings(max_examples=25)
def test_without_its_marks_a_tree_is_as_it_was(segmenter: Segmenter, html: str) -> None:
    document = build_document(html, segmenter)
    words = "".join(node.text for node in document.root.walk() if not node.tag)
    before = collapsed(html)
    assert words == "".join(node.text for node in before.walk() if not node.tag)
    assert all(child.index == index for node in document.root.walk() for index, child in enumerate(node.children))
    sentinels.remove(document.root)
    assert shape(document.root) == shape(before)
    assert all(child.parent is node for node in document.root.walk() for child in node.children)


@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=lambda one: one.name)
@given(html=PAGES)
@settings(max_examples=25)
def test_marks_come_in_pairs_around_each_seed(segmenter: Segmenter, html: str) -> None:
    """Second way to the seeds: read the marks in document order; and every line's text is its seeds' text."""
    document = build_document(html, segmenter)
    read: list[list[str]] = []
    is_open = False
    content = {leaf for leaf, _ in document.leaves}
    for node in document.root.walk():
        if node.tag == sentinels.BEGIN:
            assert not is_open
            is_open = True
            read.append([])
        elif node.tag == sentinels.END:
            assert is_open
            is_open = False
        elif is_open and node in content:
            read[-1].append(node.text)
    assert not is_open
    marked = [seed for seed in document.seeds if not any(_is_cell(document, path) for path in seed.paths)]
    assert [seed.text.replace(" ", "") for seed in marked] == ["".join("".join(one).split()) for one in read]
    for line in document.lines:
        if not line.level:
            own = " ".join(seed.text for seed in document.seeds if seed.line == line.number)
            assert own.replace(" ", "") == "".join(line.text.split())


def _is_cell(document: Any, path: tuple[int, ...]) -> bool:
    node = document.root
    for index in path:
        node = node.children[index]
    return node.tag in ("td", "th")


@given(html=PAGES)
@settings(max_examples=20)
def test_paths_are_stable_and_point_at_their_text(html: str) -> None:
    one, other = (build_document(html, SEGMENTERS[0]) for _ in range(2))
    assert one.document_id == other.document_id
    assert [seed.paths for seed in one.seeds] == [seed.paths for seed in other.seeds]
    for seed in one.seeds:
        if not any(_is_cell(one, path) for path in seed.paths):
            found = []
            for path in sorted(seed.paths):
                node = one.root
                for index in path:
                    node = node.children[index]
                found.append(node.text)
            assert "".join("".join(found).split()) == seed.text.replace(" ", "")


def test_ids_name_html_and_segmenter() -> None:
    ids = {document_id(html, segmenter) for html in ("<p>a", "<p>b") for segmenter in SEGMENTERS}
    assert len(ids) == 4 and all("selectolax" in name for name in ids)


def test_inline_markup_that_crosses_sentences_stays() -> None:
    document = build_document("<p>He left. <b>She stayed. They</b> met again.</p>", SEGMENTERS[0])
    assert [seed.text for seed in document.seeds] == ["He left.", "She stayed.", "They met again."]
    assert [len(seed.paths) for seed in document.seeds] == [1, 1, 2]
    (bold,) = [node for node in document.root.walk() if node.tag == "b"]
    assert [child.tag or child.text for child in bold.children] == [
        sentinels.BEGIN, "She stayed. ", sentinels.END, sentinels.BEGIN, "They",
    ]  # fmt: skip


def test_what_is_a_seed() -> None:
    html = """<h2>Not this.</h2><ul><li>Own text. More.<ul><li>Inner</ul>Tail</ul>
    <table><caption>Cap.</caption><tr><th>Year<td>It rose. It fell.<td>1965<td>A rest.</table>
    <dl><dt>Term<dd>Meaning.</dl><p>A line<br>Break. Again. Again. Again.<nav>Gone.</nav>"""
    assert seeds_of(html) == [
        "Own text.", "More.", "Inner", "Tail", "Cap.", "Year", "It rose.", "It fell.", "1965", "A rest.", "Term",
        "Meaning.", "A line Break.", "Again.", "Again.", "Again.",
    ]  # fmt: skip
    document = build_document(html, SEGMENTERS[0])
    cells = [seed.text for seed in document.seeds if all(_is_cell(document, path) for path in seed.paths)]
    assert cells == ["Year", "1965"]
    repeated = [seed.paths for seed in document.seeds if seed.text == "Again."]
    assert len(set(repeated)) == 3  # by offsets, not by searching the text


def test_abbreviations_end_no_sentence() -> None:
    html = "<p>Dr. Smith met Mr. Jones at 5 p.m. in Washington. They spoke.</p>"
    assert len(seeds_of(html)) == 2
    assert len(build_document(html, Segmenter("rule")).seeds) > 2


def test_reference_lists_and_hidden_text_are_no_seeds() -> None:
    html = '<ol class="references"><li>Cited.</ol><p hidden>No.</p><p>Yes.<sup class="reference">[1]</sup>'
    assert seeds_of(html) == ["Yes."]
    assert len(build_document(html, SEGMENTERS[0], references=True).seeds) == 2
