"""Questions with the pages that are searched for them: all over one corpus, or each over pages of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.eval.evidence.spire.document import Document, build_document
from tilewright.eval.evidence.spire.htmlrag_sets import read_htmlrag
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Question


@dataclass(frozen=True)
class Group:
    """``questions`` asked over ``html`` {page_id: HTML}; ``urls`` {page_id: address, "" if unknown}."""

    questions: tuple[Question, ...]
    html: Mapping[str, str]
    urls: Mapping[str, str]

    def documents(self, segmenter: Segmenter) -> dict[str, Document]:
        """{page_id: document} of all pages."""
        return {page_id: build_document(html, segmenter) for page_id, html in self.html.items()}


def corpus_group(folder: Path, questions: Sequence[Question]) -> tuple[Group, dict[str, str]]:
    """(the questions over all pages of a make_pages folder, {page_id: why a page can't be read}).

    Raises InputError if no page can be read.
    """
    known = read_jsonl(folder / "pages.jsonl", Page, unique="page_id")
    pages = Pages.open(folder, [page.page_id for page in known])
    html: dict[str, str] = {}
    errors: dict[str, str] = {}
    for page_id in pages.pages:
        try:
            html[page_id] = pages.html(page_id)
        except ItemError as error:
            errors[page_id] = str(error)
    if not html:
        raise InputError(f"pages: none of the {len(known)} pages of {folder} is HTML that can be read")
    return Group(tuple(questions), html, {page_id: page.url for page_id, page in pages.pages.items()}), errors


def htmlrag_groups(paths: Sequence[Path]) -> Iterator[tuple[Group, int]]:
    """(each question over the pages found for it, how many of them are blank)."""
    for found in read_htmlrag(paths):
        html = {page.page_id: page.html for page in found.pages}
        yield Group((found.question,), html, {page.page_id: page.url for page in found.pages}), found.blank_pages
