"""Evaluation sets as files, and what they forbid; questions as shingles."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.decontamination import EvaluationSet, contaminations, gold_pages, read_evaluation_sets
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.shingles import shingles, tokens
from tilewright.data_gen.urls import page_id

FRANCE = "https://en.wikipedia.org/wiki/France"


def pair(query: str, page: str = "0" * 16) -> QAPair:
    return QAPair(f"q:{query}", query, "x", (), f"{page}-0000-00", page, "", "table", "", "grounded/1")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("What's the 1,000th “Café”?", ("whats", "the", "1000th", "café")),
        ("Cafe\u0301 ﬁne\u00a0print", ("café", "fine", "print")),
        ("C# or C++?", ("c#", "or", "c++")),
        ("日本の首都は？ABC", ("日", "本", "の", "首", "都", "は", "abc")),
        ("हिन्दी में", ("हिन्दी", "में")),
        (" ?! ", ()),
    ],
)
def test_tokens(text: str, wanted: tuple[str, ...]) -> None:
    assert tokens(text) == wanted


@given(st.text(max_size=30), st.integers(1, 4))
def test_shingles_are_runs_of_tokens(text: str, width: int) -> None:
    found, words = shingles(text, width), tokens(text)
    assert found == {words[i : i + width] for i in range(len(words)) if len(words[i : i + width]) == width} or (
        len(words) < width and found == ({words} if words else set())
    )
    assert tokens(" ".join(words)) == words and shingles(text.upper().lower(), width) == shingles(text.lower(), width)


def test_gold_pages_are_found_by_address_and_by_id() -> None:
    sets = [EvaluationSet("a", ("Who?",), {page_id(FRANCE): FRANCE})]
    urls = {"f" * 16: "https://en.m.wikipedia.org/wiki/france#History", "e" * 16: "no address"}
    pages = ["e" * 16, "f" * 16, page_id(FRANCE)]
    assert gold_pages(sets, urls, pages) == set(pages[1:])
    found = list(contaminations([pair("Where?", page) for page in pages], sets, urls, width=2, threshold=0.6))
    assert [(entry.page_id, entry.reason, entry.matched) for entry in found] == [
        (page, "gold_page", FRANCE) for page in pages[1:]
    ]


@pytest.mark.parametrize(
    "spelled",
    [
        "http://en.wikipedia.org/wiki/France",
        "http://EN.m.wikipedia.org:80/wiki/france#x",
        "https://en.wikipedia.org/wiki/France/",
        "https://en.wikipedia.org/wiki/%46rance",
    ],
)
def test_a_gold_page_is_found_however_its_address_is_spelled(spelled: str, tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text(json.dumps({"query": "Who?", "url": spelled}))
    sets = read_evaluation_sets([tmp_path / "set.jsonl"])
    for own, urls in ((page_id(FRANCE), {page_id(FRANCE): FRANCE}), ("f" * 16, {"f" * 16: FRANCE.replace("s:", ":")})):
        assert gold_pages(sets, urls, [own, "e" * 16]) == {own}
        found = list(contaminations([pair("When?", own), pair("Where?", "e" * 16)], sets, urls, width=2, threshold=0.5))
        assert [(entry.query, entry.reason, entry.similarity) for entry in found] == [("When?", "gold_page", 1.0)]
        assert found[0].matched in sets[0].gold.values()


@pytest.mark.parametrize(
    ("query", "question", "similarity"),
    [
        ("Who?", "who", 1.0),  # shorter than a shingle
        ("Moss mill?", "the moss mill", 0.5),
        ("Moss mill?", "the old moss mill", None),  # 1 of 3
        ("Who sold the moss mill of Ashford?", "Who sold the moss mill of Ashford", 1.0),
        ("Who sold the moss mill of Ashford?", "who bought the moss mill of ashford", 0.5),
        ("Who sold the moss mill of Ashford?", "Tell me who sold the moss mill of Ashford", 0.75),
        ("When was Ashford built?", "Who sold the moss mill of Ashford?", None),
        ("?", "?", None),
    ],
)
def test_questions_match_by_their_shingles(query: str, question: str, similarity: float | None) -> None:
    sets = [EvaluationSet("a", ("Which fern?", question), {})]
    found = list(contaminations([pair(query)], sets, {}, width=2, threshold=0.5))
    wanted = [] if similarity is None else [(question, similarity)]
    assert [(entry.matched, entry.similarity) for entry in found] == wanted


def test_files_are_read_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    lines = [
        {"query": "One?", "question": "no", "gold_urls": [FRANCE, f"{FRANCE}#x"]},
        {"question": "Two?", "url": "", "urls": None, "more": {}},
    ]
    text = "\ufeff" + "\n \r\n".join(json.dumps(line) for line in lines)
    (tmp_path / "a" / "test.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "b" / "test.jsonl").write_text('{"query": "Three?"}\r\n', encoding="utf-8")
    first, second = read_evaluation_sets([tmp_path / "a" / "test.jsonl", tmp_path / "b" / "test.jsonl"])
    assert first == EvaluationSet("a/test.jsonl", ("One?", "Two?"), {page_id(FRANCE): FRANCE})
    assert second == EvaluationSet("b/test.jsonl", ("Three?",), {})
    assert read_evaluation_sets([tmp_path / "b" / "test.jsonl"])[0].name == "test.jsonl"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b'{"query": "caf\xe9"}', "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "wanted a JSON object, found list"),
        (b'{"text": "Who?"}', r"wanted a question under one of \['query', 'question'\], found None"),
        (b'{"query": 3}', "wanted a question .*found 3"),
        (b'{"query": " "}', "wanted a question"),
        (b'{"query": "Who \\ud800?"}', "wanted a question"),
        (b'{"query": "Who?", "url": "https://en.wikipedia.org/wiki/\\udfff"}', "url: wanted URLs"),
        (b'{"query": "Who?", "url": 3}', "url: wanted URLs, found 3"),
        (b'{"query": "Who?", "gold_urls": ["France"]}', "gold_urls: .*France.*absolute"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'{"query": "Who?"}\n\n' + line + b"\n")
    with pytest.raises(InputError, match=rf"set\.jsonl:3: {message}"):
        read_evaluation_sets([path])


def test_missing_empty_and_doubled_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.jsonl is missing"):
        read_evaluation_sets([tmp_path / "no.jsonl"])
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="wanted at least one evaluation question"):
        read_evaluation_sets([tmp_path / "empty.jsonl"])
    with pytest.raises(InputError, match="the same file stands twice"):
        read_evaluation_sets([tmp_path / "empty.jsonl"] * 2)


def test_many_questions_of_one_form_take_no_long_time() -> None:
    places = [f"{first}{second} {third}" for first in "abcdefghij" for second in "klmnopqrst" for third in "uvwxyz"]
    pairs = [pair(f"What is the mean height of the old town of {place}?") for place in places] * 8
    sets = [EvaluationSet("a", tuple(f"What is the capital of {place}?" for place in places), {})]
    start = time.process_time()
    assert not list(contaminations(pairs, sets, {}, width=2, threshold=0.6))
    assert time.process_time() - start < 2
