"""Natural Questions and NQ-Tables.

NQ (https://github.com/google-research-datasets/natural-questions): the original lines, the simplified ones, and those
of ``datasets`` (google-research-datasets/natural_questions), which hold the short answers' texts. Also NQ-open
(google-research-datasets/nq_open), which has no gold page. NQ-Tables (Herzig et al. 2021,
https://github.com/google-research/tapas/blob/master/DENSE_TABLE_RETRIEVER.md): lines of ``interactions/*.jsonl``.
"""

from collections import Counter
from collections.abc import Iterator

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.addresses import gold_urls
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read, distinct, made_id

ENOUGH_OF_FIVE = 2  # annotators with a short answer, as NQ's own evaluation wants of its five


def parse_nq(row: Fields) -> Iterator[Read | Dropped]:
    """Short answers of all annotators, the most frequent first; every span counts as an answer, as PixelRAG has it.

    Of several annotators two have to give one. Yes and no are no spans: such questions are dropped, counted apart.
    """
    if row.has("answer"):  # NQ-open
        yield _question("nq", "", row.text("question"), row.texts("answer"), [])
        return
    given = list(_short_answers(row))
    with_answer = sum(bool(texts) for texts, _ in given)
    if with_answer < (ENOUGH_OF_FIVE if len(given) > 1 else 1):
        yes_or_no = any(said in ("YES", "NO", "1", "0") for _, said in given)
        reason = "few_annotators_agree" if with_answer else "yes_or_no" if yes_or_no else "no_short_answer"
        yield Dropped(reason)
        return
    ranked = [text for text, _ in Counter(text for texts, _ in given for text in texts).most_common()]
    document = row.inner("document") if row.has("document") else row
    query = row.inner("question").text("text") if row.has("question") else row.text("question_text")
    urls = [document.optional("url", "document_url")]
    yield _question("nq", row.text("id", "example_id"), query, ranked, urls)


def _short_answers(row: Fields) -> Iterator[tuple[tuple[str, ...], str]]:
    """(texts, yes or no) of each annotator."""
    tokens = _tokens(row)
    for annotation in row.rows("annotations"):
        texts = []
        for span in annotation.rows("short_answers"):
            if span.has("text"):
                texts.append(span.text("text"))
            else:
                texts.append(_between(tokens, span))
        yield distinct(texts), annotation.optional("yes_no_answer").upper()


def _tokens(row: Fields) -> list[tuple[str, bool]]:
    """(token, whether it is HTML) of the document, where short answers are spans of it."""
    if row.has("document_text"):
        return [(token, token.startswith("<")) for token in row.text("document_text").split(" ")]
    if row.has("document_tokens"):
        return [(token.text("token"), bool(token.data.get("html_token"))) for token in row.rows("document_tokens")]
    return []


def _between(tokens: list[tuple[str, bool]], span: Fields) -> str:
    start, end = span.plain("start_token"), span.plain("end_token")
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(tokens)):
        raise InputError(f"{span.where}: wanted 0 <= start_token < end_token <= {len(tokens)}, found {start} and {end}")
    return " ".join(token for token, is_html in tokens[start:end] if not is_html)


def parse_nq_tables(row: Fields) -> Iterator[Read | Dropped]:
    """The first question of an interaction; its table's document is the gold page."""
    question = next(iter(row.rows("questions")), None)
    if question is None:
        yield Dropped("no_question")
        return
    answers = question.inner("answer").texts("answerTexts") if question.has("answer") else []
    url = row.inner("table").optional("documentUrl")
    yield _question(
        "nq_tables", row.optional("id") or question.text("id"), question.text("originalText"), answers, [url]
    )


def _question(name: str, given_id: str, query: str, answers: list[str], urls: list[str]) -> Read | Dropped:
    answer, *aliases = distinct(answers) or ("",)
    if not answer:
        return Dropped("no_answer")
    found, unusable = gold_urls(urls)
    query_id = f"{name}-{given_id}" if given_id else made_id(name, query)
    return Read(EvalQuestion(query_id, query, answer, tuple(aliases), found, name), unusable_urls=unusable)
