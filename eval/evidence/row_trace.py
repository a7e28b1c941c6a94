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
from tilewright.eval.string_evidence import holds, visible

PAGES_OPEN = 256


class RowTraces:
    """Traces the rows of one retriever. The fragment is a question's answer, in the spelling that its page has.

    ``source``: the documents of its gold pages (left out without ``pages``, and where one isn't HTML). ``extraction``:
    all that the retriever stores of them, joined; ``stored``: its items; ``candidates``: those of its hits that are of
    a gold page; ``reader``: what was delivered, of whatever page.
    """

    def __init__(self, retriever: Retriever, result: RowResult, pages: Pages | None) -> None:
        self._retriever, self._result, self._pages = retriever, result, pages
        self._items: dict[str, list[str]] = defaultdict(list)
        for item_id, page_id in retriever.page_of.items():
            self._items[page_id].append(item_id)
        self._source = lru_cache(PAGES_OPEN)(self._visible)

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
        gold = sorted(question.gold_pages & self._items.keys())
        stored = [[self._text(name) for name in sorted(self._items[page_id])] for page_id in gold]
        pages, hits = self._retriever.page_of, self._result.hits.get(question.query_id, ())
        found = Passage(
            source=self._sources(question),
            extraction=["\n".join(texts) for texts in stored],
            stored=[text for texts in stored for text in texts],
            candidates=[self._text(name) for name, _ in hits if pages[name] in question.gold_pages],
            reader=[visible(item.text) if item.source in HTML_SOURCES else item.text for item in delivered.items],
        )
        places = (found.source or (), found.extraction or (), found.reader)
        spelt = (answer for texts in places for answer in question.answers if _stands(answer, texts))
        return trace(next(spelt, question.answers[0]), found)

    def _text(self, item_id: str) -> str:
        return self._retriever.item(item_id).text

    def _sources(self, question: Question) -> list[str] | None:
        texts = [self._source(page_id) for page_id in sorted(question.gold_pages)]
        known = [text for text in texts if text is not None]
        return known or None

    def _visible(self, page_id: str) -> str | None:
        if self._pages is None or page_id not in self._pages.pages:
            return None
        try:
            return visible(self._pages.html(page_id))
        except ItemError:
            return None


def _stands(answer: str, texts: Sequence[str]) -> bool:
    return any(holds(text, [answer]) for text in texts)
