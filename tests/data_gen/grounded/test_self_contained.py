"""What a question must name to be understood without its page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.grounded.self_contained import fault

CASES = {
    "In which year did Olaf Brandt sell the moss library of Harrow?": None,
    "What is the capital of Norrland?": None,
    "How many species of moss did the norrland garden hold?": None,  # names its subject, in small letters
    'Which song is called "The Green Hill" by the monks?': None,
    "The treaty of the fern growers was signed by how many towns in 1824?": None,  # a year is specific
    "What is a small water clock with two slow hands for use in moss gardens?": None,  # a definition
    "Who?": "too_few_terms",
    " ".join(["Norrland grew moss"] * 14) + "?": "too_long",
    "What does this table say of Norrland?": "layout_word",
    "Which town of Norrland is shown above?": "layout_word",
    "Which of these towns of Norrland is the largest?": "demonstrative",
    "Who was mayor of Eastmarch that year in Norrland?": "demonstrative",
    "Two years later, who sold the library of Harrow?": "relative_time",
    "Who is currently mayor of Eastmarch?": "relative_time",
    "How many gardens do we have in Norrland?": "first_person",
    "How many species of moss did the garden hold?": "nothing_named",
    "In May, how many species of moss grew in the garden?": "nothing_named",  # a month names nothing
    "She sold the moss library of Harrow in which year?": "pronoun",
    "In which year did it move to Harrow with 12 members?": "pronoun",
    "Who sold his moss library to Olaf Brandt of Harrow?": None,  # his: of the one who is asked for
    "Olaf Brandt sold his moss library in which year?": None,
    "In which year was the film shown in Harrow?": "generic_subject",
    "The company moved from Harrow to Eastmarch in which year?": "generic_subject",
    "The journal was printed in Harrow and Eastmarch by whom?": "generic_subject",
    "The city of Eastmarch was founded in which year?": None,
}


@pytest.mark.parametrize(("query", "reason"), CASES.items())
def test_faults(query: str, reason: str | None) -> None:
    assert fault(query, "Norrland", min_terms=2, max_words=40) == reason


def test_thresholds_count() -> None:
    query = "What is the capital of Norrland?"
    assert fault(query, "Norrland", 2, 6) is None
    assert fault(query, "Norrland", 3, 6) == "too_few_terms"
    assert fault(query, "Norrland", 2, 5) == "too_long"


@given(st.text(max_size=60), st.text(max_size=10))
def test_any_text_gets_an_answer(query: str, subject: str) -> None:
    assert fault(query, subject, 2, 40) is None or isinstance(fault(query, subject, 2, 40), str)
