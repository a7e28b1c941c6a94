"""Each benchmark's entry on rows of its published schema, made by hand: every field lands where it belongs."""

from collections.abc import Mapping
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read
from tilewright.eval.benchmarks.registry import BENCHMARKS

WIKI = "https://en.wikipedia.org/wiki/"


def parsed(name: str, row: Mapping[str, Any]) -> list[Read | Dropped]:
    return list(BENCHMARKS[name].parse(Fields(row, "file:1")))


def question(name: str, row: Mapping[str, Any]) -> EvalQuestion:
    (found,) = parsed(name, row)
    assert isinstance(found, Read), found
    return found.question


def reasons(name: str, row: Mapping[str, Any]) -> list[str]:
    return [found.reason for found in parsed(name, row) if isinstance(found, Dropped)]


NQ_URL = "https://en.wikipedia.org//w/index.php?title=Velmar_Bridge&amp;oldid=837"
NQ_TOKENS = ["<P>", "Built", "in", "1871", "by", "<B>", "Mira", "Castellan", "</B>", "."]
NQ_ORIGINAL = {
    "example_id": 797803103760793766,
    "question_text": "who built the velmar bridge",
    "document_url": NQ_URL,
    "document_title": "Velmar Bridge",
    "document_tokens": [{"token": token, "html_token": token.startswith("<")} for token in NQ_TOKENS],
    "annotations": [
        {"short_answers": [{"start_token": 6, "end_token": 8}], "yes_no_answer": "NONE"},
        {"short_answers": [{"start_token": 7, "end_token": 9}], "yes_no_answer": "NONE"},
        {"short_answers": [{"start_token": 5, "end_token": 9}], "yes_no_answer": "NONE"},
        {"short_answers": [], "yes_no_answer": "NONE"},
        {"short_answers": [], "yes_no_answer": "YES"},
    ],
}
NQ_HUB = {
    "id": "797803103760793766",
    "document": {"title": "Velmar Bridge", "url": NQ_URL, "html": "", "tokens": {"token": NQ_TOKENS}},
    "question": {"text": "who built the velmar bridge", "tokens": []},
    "annotations": {
        "id": ["1", "2"],
        "long_answer": [{"start_token": 0}, {"start_token": 0}],
        "short_answers": [
            {"start_token": [6], "end_token": [8], "text": ["Mira Castellan"]},
            {"start_token": [7, 6], "end_token": [8, 8], "text": ["Castellan", "Mira Castellan"]},
        ],
        "yes_no_answer": [-1, -1],
    },
}


def test_natural_questions_in_its_three_forms() -> None:
    simplified = {key: value for key, value in NQ_ORIGINAL.items() if key != "document_tokens"}
    simplified["document_text"] = " ".join(NQ_TOKENS)
    for row in (NQ_ORIGINAL, simplified, NQ_HUB):
        found = question("nq", row)
        assert (found.query_id, found.query) == ("nq-797803103760793766", "who built the velmar bridge")
        assert (found.answer, found.aliases) == ("Mira Castellan", ("Castellan",))  # said by two, by one
        assert found.gold_urls == (f"{WIKI}Velmar_Bridge",)


def test_natural_questions_without_a_short_answer_are_counted_by_reason() -> None:
    empty = {"short_answers": [], "yes_no_answer": "NONE"}
    one = NQ_ORIGINAL["annotations"][0]  # type: ignore[index]
    assert reasons("nq", NQ_ORIGINAL | {"annotations": [empty] * 5}) == ["no_short_answer"]
    assert reasons("nq", NQ_ORIGINAL | {"annotations": [empty | {"yes_no_answer": "NO"}] * 5}) == ["yes_or_no"]
    assert reasons("nq", NQ_ORIGINAL | {"annotations": [one] + [empty] * 4}) == ["few_annotators_agree"]
    assert question("nq", NQ_ORIGINAL | {"annotations": [one]}).answer == "Mira Castellan"  # train: one annotator
    with pytest.raises(InputError, match=r"file:1: annotations\[0\]: short_answers\[0\]: wanted 0 <= start_token"):
        question("nq", NQ_ORIGINAL | {"annotations": [{"short_answers": [{"start_token": 6, "end_token": 99}]}]})


def test_nq_open_has_no_gold_page() -> None:
    found = question("nq", {"question": "who built it", "answer": ["Mira Castellan", "M. Castellan"]})
    assert found.gold_urls == () and found.aliases == ("M. Castellan",)
    assert found.query_id == question("nq", {"question": "who built it", "answer": ["x"]}).query_id


def test_nq_tables() -> None:
    row = {
        "id": "dev-17",
        "questions": [
            {"id": "dev-17_0", "originalText": "tallest tower", "answer": {"answerTexts": ["Old Mill", "Mill"]}}
        ],
        "table": {"tableId": "t", "documentTitle": "Towers", "documentUrl": NQ_URL.replace("Velmar_Bridge", "towers")},
    }
    found = question("nq_tables", row)
    assert (found.query_id, found.query, found.answer) == ("nq_tables-dev-17", "tallest tower", "Old Mill")
    assert found.aliases == ("Mill",) and found.gold_urls == (f"{WIKI}Towers",)
    assert reasons("nq_tables", row | {"questions": []}) == ["no_question"]
    assert reasons("nq_tables", row | {"questions": [{"id": "1", "originalText": "q"}]}) == ["no_answer"]


def test_simpleqa() -> None:
    urls = ["https://en.m.wikipedia.org/wiki/velmar_Bridge#History", "https://a.orghttps://b.org/x", "no address"]
    row = {"metadata": str({"topic": "Art", "answer_type": "Date", "urls": urls}), "problem": "When?", "answer": "1871"}
    (found,) = parsed("simpleqa", row)
    assert isinstance(found, Read) and found.unusable_urls == 1 and found.question.kind == "Date"
    assert found.question.gold_urls == (f"{WIKI}Velmar_Bridge", "https://a.org/", "https://b.org/x")
    verified = {
        "original_index": 5,
        "problem": "When?",
        "answer": "1871",
        "answer_type": "Date",
        "urls": f"{WIKI}A, {WIKI}B",
    }
    other = question("simpleqa", verified)
    assert other.gold_urls == (f"{WIKI}A", f"{WIKI}B") and other.query_id == found.question.query_id
    assert reasons("simpleqa", row | {"answer": ""}) == ["no_answer"]
    for hostile in ("[" * 50_000, "__import__('os').getcwd()", "{1: [}"):
        with pytest.raises(InputError, match="file:1: metadata: wanted a row with named fields, found str"):
            question("simpleqa", row | {"metadata": hostile})


def test_frames() -> None:
    links = {f"wikipedia_link_{number}": "" for number in range(1, 11)}
    links |= {"wikipedia_link_1": f"{WIKI}A_(b)", "wikipedia_link_11+": f"{WIKI}C, {WIKI}D"}
    row = {"": "0", "Prompt": "Who?", "Answer": "Ora", "reasoning_types": "Tabular reasoning", **links}
    found = question("frames", row | {"wiki_links": str([f"{WIKI}A_(b)", f"{WIKI}Washington,_D.C."])})
    assert (found.query_id, found.query, found.answer, found.kind) == ("frames-0", "Who?", "Ora", "Tabular reasoning")
    assert found.gold_urls == (f"{WIKI}A_(b)", f"{WIKI}C", f"{WIKI}D", f"{WIKI}Washington,_D.C.")
    assert question("frames", row | {"Unnamed: 0": 3}).query_id == "frames-3"
    assert reasons("frames", row | {"Answer": " "}) == ["no_answer"]


def test_musique() -> None:
    paragraph = {"idx": 0, "title": "Ernie &amp; Bert", "paragraph_text": "Text.", "is_supporting": True}
    row = {
        "id": "2hop__13548_13529",
        "paragraphs": [paragraph, paragraph | {"title": "Other", "is_supporting": False}],
        "question": "Who?",
        "question_decomposition": [{"id": 1, "question": "x", "answer": "y", "paragraph_support_idx": 0}],
        "answer": "Ora",
        "answer_aliases": ["Ora", "Ora Fen"],
        "answerable": True,
    }
    found = question("musique", row)
    assert (found.query_id, found.kind, found.aliases) == ("musique-2hop__13548_13529", "2hop", ("Ora Fen",))
    assert found.gold_urls == (f"{WIKI}Ernie_&_Bert",) and found.supporting_facts == (("Ernie &amp; Bert", "Text."),)
    assert reasons("musique", row | {"answerable": False}) == ["unanswerable"]


def test_hotpotqa_in_both_forms() -> None:
    row = {
        "_id": "5a8b57f2",
        "question": "Who?",
        "answer": "Ora",
        "supporting_facts": [["Velmar Bridge", 0], ["Ora", 2], ["Ora", 3]],
        "context": [["Velmar Bridge", ["One.", "Two."]]],
        "type": "bridge",
        "level": "hard",
    }
    hub = {key: value for key, value in row.items() if key != "_id"} | {"id": "5a8b57f2"}
    hub["supporting_facts"] = {"title": ["Velmar Bridge", "Ora", "Ora"], "sent_id": [0, 2, 3]}
    for one in (row, hub):
        found = question("hotpotqa", one)
        assert (found.query_id, found.kind) == ("hotpotqa-5a8b57f2", "bridge")
        assert found.gold_urls == (f"{WIKI}Velmar_Bridge", f"{WIKI}Ora")
        assert found.supporting_facts == (("Velmar Bridge", "0"), ("Ora", "2"), ("Ora", "3"))
    test_set = {"_id": "1", "question": "Who?", "context": []}
    assert reasons("hotpotqa", test_set) == ["no_answer"]


def test_asqa() -> None:
    row = {
        "sample_id": "-12",
        "ambiguous_question": "When did it open?",
        "qa_pairs": [
            {"question": "In Velmar?", "short_answers": ["1871", "in 1871"], "context": "", "wikipage": None},
            {"question": "In Ora?", "short_answers": ["1903"], "context": "", "wikipage": "Ora"},
            {"question": "Never?", "short_answers": [], "context": "", "wikipage": None},
        ],
        "wikipages": [{"title": "Velmar Bridge", "url": f"{WIKI}Velmar%20Bridge"}],
        "annotations": [{"knowledge": [], "long_answer": "It opened ..."}],
    }
    found = question("asqa", row)
    assert (found.query_id, found.answer) == ("asqa--12", "1871; 1903")
    assert found.answer_parts == (("1871", "in 1871"), ("1903",))
    assert found.gold_urls == (f"{WIKI}Velmar_Bridge", f"{WIKI}Ora")
    assert reasons("asqa", row | {"qa_pairs": []}) == ["no_answer"]


def test_monaco() -> None:
    row = {"ex_num": 7, "question": "Which?", "decomposition": ["a"], "validated_answer": ["Ora", "Velmar", "Ora"]}
    found = question("monaco", row)
    assert (found.query_id, found.answer, found.answer_parts) == ("monaco-7", "Ora; Velmar", (("Ora",), ("Velmar",)))
    assert question("monaco", row | {"validated_answer": [True]}).answer == "Yes"
    assert (
        question("monaco", row | {"validated_answer": [["Ora", 1871], ["Velmar", 2.5]]}).answer
        == "Ora 1871; Velmar 2.5"
    )
    assert question("monaco", row | {"validated_answer": 0}).answer == "0" and found.gold_urls == ()
    assert reasons("monaco", row | {"validated_answer": []}) == ["no_answer"]


def test_mmsearch() -> None:
    row = {
        "sample_id": "news_0",
        "query": "Who is this?",
        "query_image": {"bytes": b"png", "path": "a.png"},
        "area": "news",
        "subfield": "sports",
        "timestamp": "2024-07-01",
        "gt_requery": "x",
        "gt_answer": "Ora",
        "alternative_gt_answers": ["Ora Fen", "Ora"],
    }
    (found,) = parsed("mmsearch", row)
    assert isinstance(found, Read) and found.picture == b"png"
    assert found.question == EvalQuestion(
        "mmsearch-news_0", "Who is this?", "Ora", ("Ora Fen",), (), "mmsearch", "news"
    )
    (text_only,) = parsed("mmsearch", row | {"query_image": None})
    (named,) = parsed("mmsearch", row | {"query_image": {"bytes": None, "path": "a.png"}})
    assert isinstance(text_only, Read) and text_only.picture is None
    assert isinstance(named, Read) and named.picture == ("a.png",)


def test_encyclopedic_vqa() -> None:
    row = {
        "question": "When was this tower built?",
        "answer": "1871|in 1871",
        "dataset_image_ids": "abc1|def2",
        "dataset_name": "landmarks",
        "question_type": "automatic",
        "wikipedia_url": f"{WIKI}Velmar_Tower",
    }
    (found,) = parsed("encyclopedic_vqa", row)
    assert isinstance(found, Read) and found.picture == ("abc1", "def2")
    assert (found.question.answer, found.question.aliases, found.question.kind) == ("1871", ("in 1871",), "automatic")
    several = question("encyclopedic_vqa", row | {"answer": "Ora&&Velmar", "wikipedia_url": f"{WIKI}A|{WIKI}B"})
    assert several.answer == "Ora; Velmar" and several.answer_parts == (("Ora",), ("Velmar",))
    assert several.gold_urls == (f"{WIKI}A", f"{WIKI}B")
    assert several.query_id != found.question.query_id  # the same words about another page
    assert reasons("encyclopedic_vqa", row | {"dataset_name": "inaturalist"}) == ["not_landmarks"]
    assert BENCHMARKS["encyclopedic_vqa"].kinds == ("automatic",)


LIVE = {
    "question": "Which event?",
    "question_type": "event",
    "options": ["A. Town hall", "B. Debate", "C. Fair"],
    "Ground_Truth": "B",
    "Ground_Truth_List": ["Debate", "the debate"],
    "img_path": "cnn_1.jpg",
}


def test_livevqa_in_both_forms() -> None:
    nested = {"id": "0_2025", "img_path": "cnn_1.jpg", "level1_qa": LIVE, "level2_qa": LIVE | {"Ground_Truth": "A"}}
    first, second = parsed("livevqa", nested)
    assert isinstance(first, Read) and isinstance(second, Read) and first.picture == ("cnn_1.jpg",)
    assert first.question.query_id == "livevqa-0_2025-level1" and second.question.query_id == "livevqa-0_2025-level2"
    assert first.question.options == ("Town hall", "Debate", "Fair") and first.question.answer == "Debate"
    assert first.question.aliases == ("the debate",) and second.question.answer == "Town hall"
    flat = question("livevqa", LIVE | {"id": "9", "level": "level1", "topic": "news"})
    assert flat.query_id == "livevqa-9-level1" and flat.kind == "event"
    assert reasons("livevqa", LIVE | {"Ground_Truth": ""}) == ["no_answer"]
    assert reasons("livevqa", LIVE | {"options": []}) == ["no_options"]
    for letter in ("D", "AB", "Debate"):
        assert reasons("livevqa", LIVE | {"Ground_Truth": letter}) == ["answer_not_among_options"]


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize(
    "row", [{}, {"question": 5, "answer": {}}, {"id": None, "_id": [], "problem": "x", "answer": "y", "urls": {"a": 1}}]
)
def test_rows_of_another_schema_are_errors_or_counted(name: str, row: dict[str, Any]) -> None:
    try:
        found = parsed(name, row)
    except InputError as error:
        assert str(error).startswith("file:1")
    else:
        assert found and all(isinstance(one, Dropped) for one in found)
