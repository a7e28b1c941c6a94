"""The evidence trace of a row: at which stage the answers of its questions stop being whole."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tilewright.configs.items import ItemError
from tilewright.eval.deliveries import HTML_SOURCES
from tilewright.eval.evidence.trace import Passage, Trace, shares, trace
from tilewright.eval.metrics import RowResult
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Delivered, Question, Retriever
from tilewright.eval.string_evidence import visible

PAGES_OPEN = 256


class RowTraces:
    """Traces the rows of one retriever. The fragment is a question's answer, in any of its spellings.

    ``source``: the documents of its gold pages (left out without ``pages``, and where none is HTML). ``extraction``:
    all that the retriever stores of them, joined; ``stored``: its items; ``candidates``: those of its hits that are of
    a gold page; ``reader``: what was delivered, of whatever page.
    """

    def __init__(self, retriever: Retriever, result: RowResult, pages: Pages | None) -> None:
        self._retriever, self._result, self._pages = retriever, result, pages
        self._items: dict[str, list[str]] = defaultdict(list)
        for item_id, page_id in sorted(retriever.page_of.items()):
            self._items[page_id].append(item_id)
        self._source = lru_cache(PAGES_OPEN)(self._visible)
        self._extracted = lru_cache(PAGES_OPEN)(lambda page_id: "\n".join(map(self._text, self._items[page_id])))
        self._before: dict[str, Trace] = {}  # by question: the same for all deliveries

    def summary(self, questions: Sequence[Question], delivered: Mapping[str, Delivered]) -> dict[str, Any]:
        """``shares`` of the questions that have gold pages and answers and were delivered."""
        return shares(
            self._trace(question, delivered[question.query_id])
            for question in questions
            if question.query_id in delivered
            and question.gold_pages
            and any(answer.strip() for answer in question.answers)
        )

    def _trace(self, question: Question, delivered: Delivered) -> Trace:
        if question.query_id not in self._before:
            self._before[question.query_id] = trace(question.answers, self._passage(question))
        given = [visible(item.text) if item.source in HTML_SOURCES else item.text for item in delivered.items]
        return self._before[question.query_id].then(trace(question.answers, Passage(reader=given)))

    def _passage(self, question: Question) -> Passage:
        page_of, gold = self._retriever.page_of, sorted(question.gold_pages & self._items.keys())
        hits = self._result.hits.get(question.query_id, ())
        known = [text for page_id in sorted(question.gold_pages) if (text := self._source(page_id)) is not None]
        return Passage(
            source=known or None,
            extraction=[self._extracted(page_id) for page_id in gold],
            stored=[self._text(name) for page_id in gold for name in self._items[page_id]],
            candidates=[self._text(name) for name, _ in hits if page_of[name] in question.gold_pages],
        )

    def _text(self, item_id: str) -> str:
        return self._retriever.item(item_id).text

    def _visible(self, page_id: str) -> str | None:
        if self._pages is None or page_id not in self._pages.pages:
            return None
        try:
            return visible(self._pages.html(page_id))
        except ItemError:
            return None
