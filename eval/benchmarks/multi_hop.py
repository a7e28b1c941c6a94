"""MuSiQue and HotpotQA: questions over several paragraphs, whose titles name the gold pages.

MuSiQue (Trivedi et al. 2022, https://github.com/StonyBrookNLP/musique): ``musique_ans_v1.0_dev.jsonl`` and its like.
HotpotQA (Yang et al. 2018, https://github.com/hotpotqa/hotpot#json-format): ``hotpot_dev_distractor_v1.json``, and the
rows of ``datasets`` (hotpotqa/hotpot_qa), where supporting facts and context are lists side by side.
"""

from collections.abc import Iterator

from tilewright.eval.benchmarks.addresses import title_urls
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read, distinct


def parse_musique(row: Fields) -> Iterator[Read | Dropped]:
    """``kind``: the chain's shape, as the id spells it (``2hop``). Unanswerable ones (MuSiQue-Full) are dropped."""
    if row.data.get("answerable") is False:
        yield Dropped("unanswerable")
        return
    answer = row.optional("answer")
    if not answer:
        yield Dropped("no_answer")
        return
    given_id = row.text("id")
    support = [paragraph for paragraph in row.rows("paragraphs") if paragraph.data.get("is_supporting")]
    facts = tuple((paragraph.text("title"), paragraph.text("paragraph_text")) for paragraph in support)
    question = EvalQuestion(
        f"musique-{given_id}",
        row.text("question"),
        answer,
        tuple(alias for alias in distinct(row.texts("answer_aliases")) if alias != answer),
        title_urls(title for title, _ in facts),
        "musique",
        kind=given_id.partition("__")[0],
        supporting_facts=facts,
    )
    yield Read(question)


def parse_hotpotqa(row: Fields) -> Iterator[Read | Dropped]:
    """``kind`` is the file's type (``bridge``, ``comparison``). The test set has no answers: its rows are dropped."""
    answer = row.optional("answer")
    if not answer:
        yield Dropped("no_answer")
        return
    facts = tuple(_supporting_facts(row))
    question = EvalQuestion(
        f"hotpotqa-{row.text('_id', 'id')}",
        row.text("question"),
        answer,
        (),
        title_urls(title for title, _ in facts),
        "hotpotqa",
        kind=row.optional("type"),
        supporting_facts=facts,
    )
    yield Read(question)


def _supporting_facts(row: Fields) -> Iterator[tuple[str, str]]:
    """(title, number of the sentence, from 0) in both forms."""
    facts = row.plain("supporting_facts") if row.has("supporting_facts") else []
    if isinstance(facts, (list, tuple)):
        facts = [
            dict(zip(("title", "sent_id"), fact, strict=False)) if isinstance(fact, (list, tuple)) else fact
            for fact in facts
        ]
    for fact in Fields({"supporting_facts": facts}, row.where).rows("supporting_facts"):
        yield fact.text("title"), fact.text("sent_id")
