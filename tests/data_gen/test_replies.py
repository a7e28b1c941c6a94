"""Pairs, answers and scores out of replies: harmless wrapping is fine, wrong forms are no pairs."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.annotator import Generated, RawPair, Skip
from tilewright.data_gen.replies import (
    EVIDENCE_KINDS,
    SKIP_REASONS,
    GeneratedText,
    RawTextPair,
    parse_answer,
    parse_naturalness,
    parse_pairs,
    parse_text_pairs,
)

PAIR = {
    "query": "In which year was the Velmar Bridge opened?",
    "answer": "1931",
    "aliases": ["the year 1931"],
    "source_span": 'Opened: "1931", {after} [nine] years',
    "source_type": "infobox",
    "subject": "Velmar Bridge",
}
RAW = RawPair(
    PAIR["query"], "1931", ("the year 1931",), 'Opened: "1931", {after} [nine] years', "infobox", "Velmar Bridge"
)
TEXT = json.dumps(PAIR)
WRAPPED = (
    *(
        "{}",
        " \n{}\n",
        "```json\n{}\n```",
        "```\n{}\n```",
        "<think>[{{}}]</think>{}",
        "[1]\n</think>\n{}",
        "Here you are:\n{}",
    ),
    *("Here you are:\n\n```json\n{}\n```\nDone.", "{}<|im_end|>", "\ufeff{}", "{}\n\n(All from the infobox.)"),
)
FORMS = ("[{}]", '{{"pairs": [{}]}}', '{{"skip": null, "pairs": [{}]}}', '{{"skip": false, "pairs": [{}]}}', "{}")


def table(name: str) -> list[tuple[str, Any]]:
    """(reply, what it says) of a file of replies."""
    path = Path(__file__).with_name("replies") / f"{name}.jsonl"
    return [tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("wrapping", WRAPPED)
@pytest.mark.parametrize("form", FORMS)
def test_pairs_in_every_form_and_wrapping(form: str, wrapping: str) -> None:
    assert parse_pairs(wrapping.replace("{}", form.format(TEXT)).replace("{{}}", "{}"), 3) == Generated((RAW,), {})


def changed(**changes: Any) -> str:
    return json.dumps([PAIR | changes])


UNUSABLE = [
    *(
        changed(**{key: value})
        for key in PAIR
        if key != "aliases"
        for value in (None, 7, True, "", "  ", [], ["x"], {})
    ),
    *(changed(aliases=value) for value in (None, "x", [1], [None], {}, 0)),
    *(
        json.dumps([{key: value for key, value in PAIR.items() if key != missing}])
        for missing in PAIR
        if missing != "aliases"
    ),
    *(changed(source_type=kind) for kind in ("Infobox", "prose", "picture", "infobox ")),
    *(
        changed(note="x"),
        changed(query="a\x00b"),
        json.dumps([PAIR]).replace("1931", "\\ud800"),
        json.dumps([PAIR, {"query": "x"}]),
    ),
    *(
        "",
        " ",
        "null",
        "true",
        "7",
        '"SKIP it"',
        "pairs",
        "{}",
        '{"pairs": null}',
        '{"pairs": {}}',
        '{"other": []}',
        "[[]]",
        "[null]",
    ),
    *(
        '{"skip": null}',
        '{"skip": 1, "pairs": []}',
        '{"skip": "", "pairs": [{}]}',
        '{"skip": null, "pairs": [], "more": 1}',
    ),
    *(
        f'{{"skip": true, "pairs": [{TEXT}]}}',
        f'{{"skip": "other", "pairs": [{TEXT}]}}',
        f"SKIP\n[{TEXT}]",
        f"[{TEXT}]\nSKIP",
    ),
    *(
        f"[{TEXT}",
        f"[{TEXT},",
        TEXT[:-1],
        f"[{TEXT}] [{TEXT}]",
        f"{TEXT}\n{TEXT}",
        f"<think>[{TEXT}]",
        f"<think>[{TEXT}]</think>",
    ),
    *(f'[{TEXT[:-1]}, "answer": "1932"}}]', f"```json\n[{TEXT}]\n```\n```json\n[]\n```" + f"[{TEXT}]"),
    *(
        "I'd SKIP this tile.",
        "SKIP it or not",
        "Don't SKIP",
        "SKIPPING",
        "skip?",
        "SKIP\n\nWait",
        "Pairs: none",
        "[" * 5000,
        '{"a":' * 5000,
    ),
    *(changed(query=float("nan")), "[NaN]", "[1e999]", "9" * 5000),
]


@pytest.mark.parametrize("reply", UNUSABLE)
def test_wrong_forms_are_unusable(reply: str) -> None:
    found = parse_pairs(reply, 3)
    assert found is None or (reply == "SKIP\n\nWait" and found == Skip("other"))


@pytest.mark.parametrize(("reply", "reason"), table("skips"))
def test_skips_and_their_reasons(reply: str, reason: str) -> None:
    assert parse_pairs(reply, 3) == Skip(reason)
    assert reason in (*SKIP_REASONS, "no_reason", "no_pairs")


def test_pairs_beyond_the_limit_are_counted() -> None:
    pairs = [PAIR | {"query": f"Question {i}?"} for i in range(5)]
    found = parse_pairs(json.dumps(pairs), 2)
    assert isinstance(found, Generated)
    assert [pair.query for pair in found.pairs] == ["Question 0?", "Question 1?"]
    assert found.dropped == {"over_max_pairs": 3}


def test_a_limit_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_pairs: wanted 1 or more, found 0"):
        parse_pairs("[]", 0)


def test_blanks_collapse_but_in_the_span_and_aliases_are_distinct() -> None:
    pair = PAIR | {"query": " Who\n did  it? ", "source_span": " a\n b ", "aliases": ["x", " x ", "1931", "", "y"]}
    found = parse_pairs(json.dumps(pair), 1)
    assert isinstance(found, Generated)
    assert (found.pairs[0].query, found.pairs[0].source_span, found.pairs[0].aliases) == (
        "Who did it?",
        "a\n b",
        ("x", "y"),
    )


def test_aliases_may_be_missing() -> None:
    without = {key: value for key, value in PAIR.items() if key != "aliases"}
    assert parse_pairs(json.dumps(without), 1) == Generated((RawPair(**(vars(RAW) | {"aliases": ()})),), {})


texts = st.text(alphabet=string.printable + "éß中”“<>{}", min_size=1).filter(
    lambda text: text.strip() and "think" not in text
)


@given(texts, texts, texts, st.sampled_from(EVIDENCE_KINDS))
def test_any_text_of_a_pair_comes_back(query: str, answer: str, span: str, kind: str) -> None:
    clean = " ".join(filter(str.isprintable, query.split())), " ".join(answer.split()), span.strip()
    pair = PAIR | {"query": clean[0] or "q", "answer": clean[1], "source_span": clean[2], "source_type": kind}
    found = parse_pairs(json.dumps({"skip": None, "pairs": [pair]}), 1)
    control = any((c < " " and c not in "\t\n\r\f\v") or c == "\x7f" for c in clean[1] + clean[2])
    if not control:
        assert isinstance(found, Generated)
        assert (found.pairs[0].query, found.pairs[0].answer, found.pairs[0].source_span) == (
            *(" ".join((clean[0] or "q").split()), clean[1], clean[2]),
        )


@given(st.text() | st.text(alphabet='{}[]":,\\nulaskipSKIP0. \n`<>/think'))
def test_never_raises_and_random_text_gives_no_pairs(reply: str) -> None:
    assert not isinstance(parse_pairs(reply, 3), Generated)
    assert not isinstance(parse_text_pairs(reply, 3), GeneratedText)
    assert parse_naturalness(reply) in (None, 1, 2, 3, 4, 5)
    answer = parse_answer(reply)
    assert answer is None or (answer == " ".join(answer.split()) and answer)


def test_text_pairs() -> None:
    pairs = [{"query": "Who made it?", "source_span": "made by Ora"}, {"query": "When?", "source_span": "1931"}]
    reply = json.dumps({"skip": None, "pairs": pairs})
    made = RawTextPair("Who made it?", "made by Ora")
    assert parse_text_pairs(reply, 1) == GeneratedText((made,), {"over_max_pairs": 1})
    assert parse_text_pairs("SKIP", 1) == Skip("no_reason")
    for bad in ('[{"query": "Who?"}]', '[{"query": "Who?", "source_span": ""}]', TEXT, "", "[3]"):
        assert parse_text_pairs(bad, 1) is None


@pytest.mark.parametrize(("reply", "score"), table("scores"))
def test_table_of_scores(reply: str, score: int | None) -> None:
    assert parse_naturalness(reply) == score


NO_TEXT = ('{"answer": "\\ud800 x"}', "Paris \udfff", "a\x00b", '{"answer": "a\\u0007"}')  # no UTF-8, or control


@pytest.mark.parametrize(
    ("reply", "answer"), [*table("answers"), ("x" * 1001, None), *((reply, None) for reply in NO_TEXT)]
)
def test_table_of_answers(reply: str, answer: str | None) -> None:
    assert parse_answer(reply) == answer
