"""MMSearch, Encyclopedic VQA and LiveVQA: questions with a picture, which is embedded together with the text.

MMSearch (Jiang et al. 2024, https://huggingface.co/datasets/CaraJ/MMSearch): ``end2end.parquet``; no gold pages.
Encyclopedic VQA (Mensink et al. 2023,
https://github.com/google-research/google-research/tree/master/encyclopedic_vqa#vqa-questions): ``test.csv``; the
pictures of Google Landmarks v2 lie in a folder, by id. LiveVQA (Fu et al. 2025,
https://github.com/fumingyang2004/LIVEVQA/tree/main/liveVQA_benchmarks): ``benchmark.json`` with two questions a
picture, and flat rows of one question (ONE-Lab/LiveVQA-new); pictures lie in a folder.
"""

from collections.abc import Iterator
from string import ascii_uppercase

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.addresses import gold_urls
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read, distinct, made_id, without_letters

LANDMARKS = "landmarks"
LEVELS = ("level1_qa", "level2_qa")


def parse_mmsearch(row: Fields) -> Iterator[Read | Dropped]:
    """Some questions have no picture; ``kind`` is the area (``news``, ``knowledge``)."""
    answer = row.optional("gt_answer")
    if not answer:
        yield Dropped("no_answer")
        return
    aliases = [alias for alias in distinct(row.texts("alternative_gt_answers")) if alias != answer]
    query_id = f"mmsearch-{row.text('sample_id')}"
    question = EvalQuestion(query_id, row.text("query"), answer, tuple(aliases), (), "mmsearch", row.optional("area"))
    yield Read(question, _picture(row))


def _picture(row: Fields) -> bytes | tuple[str, ...] | None:
    """The bytes in the file, or the name that ``datasets`` keeps beside them."""
    value = row.data.get("query_image")
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, str):
        return (value,)
    if value is None or isinstance(value, bytes):
        return value or None
    raise InputError(f"{row.where}: query_image: wanted an encoded picture or its name, found {type(value).__name__}")


def parse_encyclopedic_vqa(row: Fields) -> Iterator[Read | Dropped]:
    """Questions on landmarks; any of a question's pictures will do. ``kind``: templated, automatic, 2_hop...

    Annotators' answers are parted by ``|``, items of one answer by ``&&``, addresses by ``|``.
    """
    if row.text("dataset_name") != LANDMARKS:
        yield Dropped("not_landmarks")
        return
    answers = distinct(row.optional("answer").split("|"))
    if not answers:
        yield Dropped("no_answer")
        return
    query, pictures = row.text("question"), distinct(row.optional("dataset_image_ids").split("|"))
    parts = tuple((item,) for item in distinct(answers[0].split("&&")))
    urls, unusable = gold_urls(row.optional("wikipedia_url").split("|"))
    question = EvalQuestion(
        made_id("encyclopedic_vqa", query, *pictures, *urls),
        query,
        answers[0].replace("&&", "; "),
        tuple(answer.replace("&&", "; ") for answer in answers[1:]),
        urls,
        "encyclopedic_vqa",
        kind=row.optional("question_type"),
        answer_parts=parts if len(parts) > 1 else (),
    )
    yield Read(question, pictures, unusable)


def parse_livevqa(row: Fields) -> Iterator[Read | Dropped]:
    """Multiple choice: the letter ``Ground_Truth`` names an option. ``kind``: the type of what is asked for."""
    nested = [level for level in LEVELS if row.has(level)]
    if not nested:
        yield _livevqa(row, row, row.optional("level"))
    for level in nested:
        yield _livevqa(row, row.inner(level), level.removesuffix("_qa"))


def _livevqa(row: Fields, asked: Fields, level: str) -> Read | Dropped:
    options = without_letters(asked.texts("options"))
    letter = asked.optional("Ground_Truth", "ground_truth").upper()
    if len(options) < 2 or not letter:
        return Dropped("no_options" if letter else "no_answer")
    number = ascii_uppercase.find(letter) if len(letter) == 1 else -1
    if not 0 <= number < len(options):
        return Dropped("answer_not_among_options")
    query, picture = asked.text("question"), asked.optional("img_path") or row.optional("img_path")
    urls, unusable = gold_urls([row.optional("corpus_url")])
    known = f"livevqa-{row.text('id')}{f'-{level}' if level else ''}" if row.has("id") else None
    question = EvalQuestion(
        known or made_id("livevqa", query, picture, *options),
        query,
        options[number],
        tuple(text for text in distinct(asked.texts("Ground_Truth_List")) if text != options[number]),
        urls,
        "livevqa",
        kind=asked.optional("question_type") or row.optional("topic"),
        options=options,
    )
    return Read(question, (picture,) if picture else (), unusable)
