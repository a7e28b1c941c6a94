"""SimpleQA and FRAMES: a question, one short answer, and the addresses of the pages it rests on.

SimpleQA (Wei et al. 2024, https://github.com/openai/simple-evals/blob/main/simpleqa_eval.py):
``simple_qa_test_set.csv`` with metadata, problem, answer; also SimpleQA Verified (google/simpleqa-verified), whose
``urls`` is a column.
FRAMES (Krishna et al. 2024, https://huggingface.co/datasets/google/frames-benchmark): ``test.tsv``.
"""

from collections.abc import Iterator

from tilewright.eval.benchmarks.addresses import gold_urls
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read, made_id

FRAMES_LINKS = (*(f"wikipedia_link_{number}" for number in range(1, 11)), "wikipedia_link_11+")


def parse_simpleqa(row: Fields) -> Iterator[Read | Dropped]:
    """All addresses of the metadata are gold pages; ``kind`` is the answer's type."""
    query, answer = row.text("problem"), row.optional("answer")
    if not answer:
        yield Dropped("no_answer")
        return
    about = row.inner("metadata") if row.has("metadata") else row
    urls, unusable = gold_urls(_listed(about, "urls"))
    kind = about.optional("answer_type")
    yield Read(EvalQuestion(made_id("simpleqa", query), query, answer, (), urls, "simpleqa", kind), None, unusable)


def _listed(row: Fields, name: str) -> list[str]:
    """A list of texts, or one text that holds several addresses."""
    value = row.plain(name) if row.has(name) else []
    return [value] if isinstance(value, str) else row.texts(name)


def parse_frames(row: Fields) -> Iterator[Read | Dropped]:
    """All linked articles are gold pages; ``kind`` is the kinds of reasoning, as the file writes them."""
    query, answer = row.text("Prompt"), row.optional("Answer")
    if not answer:
        yield Dropped("no_answer")
        return
    links = [row.optional(name) for name in FRAMES_LINKS]
    urls, unusable = gold_urls([*links, *_listed(row, "wiki_links")])
    number = row.optional("Unnamed: 0", "")
    query_id = f"frames-{number}" if number else made_id("frames", query)
    kind = row.optional("reasoning_types")
    yield Read(EvalQuestion(query_id, query, answer, (), urls, "frames", kind), None, unusable)
