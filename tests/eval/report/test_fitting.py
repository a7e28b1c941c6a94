"""A report's values in their compact form: nothing lost while they fit, cut in steps when they don't."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.eval.report.data import as_script
from tilewright.eval.report.fitting import CUTS, RIGHT, fitted

TEXTS = st.text(max_size=12)
HITS = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abc"),
        "page": st.sampled_from("xy"),
        "score": st.floats(0, 1),
        "right": st.sampled_from(RIGHT),
        "holds": st.booleans(),
        "text": TEXTS,
    }
)
FOUND = st.one_of(
    st.fixed_dictionaries({"rank": st.integers(0, 9), "evidence": st.just(0), "hits": st.lists(HITS, max_size=3)}),
    st.fixed_dictionaries({"error": TEXTS}),
)
GIVEN = st.fixed_dictionaries(
    {"id": st.sampled_from("abc"), "px": st.lists(st.integers(1, 2), max_size=2), "text": TEXTS}
)
SAID = st.fixed_dictionaries({"said": TEXTS, "given": st.lists(GIVEN, max_size=3)})
QUESTIONS = st.lists(
    st.fixed_dictionaries(
        {
            "q": TEXTS,
            "found": st.dictionaries(st.sampled_from("mn"), FOUND),
            "said": st.dictionaries(st.sampled_from("uv"), SAID),
        }
    ),
    max_size=4,
).map(lambda questions: [{"id": str(number), **question} for number, question in enumerate(questions)])


def read(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions as report.js reads them."""
    questions = []
    for question in data["questions"]:
        found, said = {}, {}
        for name, one in question["found"].items():
            hits = [
                {**data["items"][place], "score": score, "right": RIGHT[right], "holds": bool(holds)}
                for place, score, right, holds in one.get("hits", ())
            ]
            found[name] = {**one, "hits": hits} if "hits" in one else one
        for name, one in question["said"].items():
            said[name] = {**one, "given": [data["given"][place] for place in one["given"]]}
        questions.append({**question, "found": found, "said": said})
    return questions


ONCE = [{"id": "a", "px": [1], "text": ""}, {"text": "", "px": [1], "id": "a"}]


@settings(max_examples=60, deadline=None)
@given(QUESTIONS)
@example([{"id": "0", "q": "", "found": {}, "said": {"u": {"said": "", "given": ONCE}}}])
def test_what_fits_is_whole_and_each_value_stands_once(questions: list[dict[str, Any]]) -> None:
    data = fitted({"questions": questions}, (), 10**9)
    assert data["cut"] == [None, None] and read(data) == questions
    for values in (data["items"], data["given"]):
        assert all(value not in values[:place] for place, value in enumerate(values))


def large(number: int, *, texts: int = 3_000, hits: int = 10) -> dict[str, Any]:
    found = [
        {"id": f"t{number}-{n}", "page": "p", "score": 0.5, "right": "page", "holds": True, "text": "<" * 400}
        for n in range(hits)
    ]
    given = [{"id": f"c{number}-{n}", "px": [], "text": f"{number} {n} " + "é" * texts} for n in range(3)]
    return {
        "id": str(number),
        "found": {"row": {"rank": 1, "evidence": 0, "hits": found}},
        "said": {"cell": {"said": "x" * 2_000, "given": given}},
    }


def test_texts_are_cut_before_hits_and_never_those_of_the_sample() -> None:
    questions = [large(number) for number in range(20)]
    sizes: list[int] = []
    for characters, hits in CUTS:
        budget = sizes[-1] - 1 if sizes else 10**9
        data = fitted({"questions": questions}, ("3",), budget)
        size = len(as_script(data).encode())
        assert data["cut"] == [characters, hits] and size <= budget
        sizes.append(size)
        shown = read(data)
        assert shown[3] == questions[3]
        wanted = 10 if hits is None else hits
        assert {len(one["found"]["row"]["hits"]) for one in shown if one["id"] != "3"} == {wanted}
        longest = max(len(item["text"]) for one in shown if one["id"] != "3" for item in one["said"]["cell"]["given"])
        assert longest <= (characters + 1 if characters is not None else 3_010)
    beyond = fitted({"questions": questions}, ("3",), 10)
    assert beyond["cut"] == beyond["cut_whole"] == list(CUTS[-1]) and len(beyond["questions"]) == 20


def test_a_sample_that_is_too_large_by_itself_is_cut_last() -> None:
    questions = [large(number) for number in range(20)]
    sample = [question["id"] for question in questions]
    sizes: list[int] = []
    for cut in CUTS:
        budget = sizes[-1] - 100 if sizes else 10**9
        data = fitted({"questions": questions}, sample, budget)
        sizes.append(len(as_script(data).encode()))
        assert sizes[-1] <= budget and data["cut_whole"] == list(cut)
        assert data["cut"] == list(CUTS[-1] if sizes[1:] else CUTS[0])
