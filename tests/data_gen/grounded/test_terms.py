"""Terms are equal where meaning is, and sentences end where they end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.sentences import sentences
from tilewright.data_gen.grounded.terms import bare_title, contains_title, holds, key_terms, terms, title_terms


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("died", "die"),
        ("published", "publish"),
        ("won", "win"),
        ("succeeded", "succeed"),
        ("moved", "moving"),
        ("cities", "city"),
        ("Lincoln's", "Lincoln"),
        ("12,400", "12400"),
        ("three", "3"),
        ("STRASSE", "straße"),
        ("stopped", "stop"),
    ],
)
def test_forms_of_one_word_are_one_term(first: str, second: str) -> None:
    assert terms(first) == terms(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [("1965", "1966"), ("3.14", "314"), ("-5", "5"), ("1860s", "1860"), ("mars", "march"), ("lay", "lie")],
)
def test_different_facts_are_different_terms(first: str, second: str) -> None:
    assert terms(first) != terms(second)


def test_key_terms_leave_out_what_is_asked_for() -> None:
    assert key_terms("In which year did the society move to Eastmarch?") == frozenset(terms("society move eastmarch"))
    assert key_terms("How many members of the society were there?") == frozenset(terms("members society"))
    assert key_terms("Who was it?") == frozenset()
    assert "year" in key_terms("the year of the fire")


def test_holds_wants_the_terms_in_a_row() -> None:
    text = terms("The silver fern of the Harrow Islands")
    assert holds(text, terms("Harrow Islands"))
    assert not holds(text, terms("silver Islands"))
    assert not holds(text, ())
    assert not holds((), terms("fern"))


def test_titles() -> None:
    assert bare_title("Mercury (planet)") == "Mercury"
    assert bare_title("(I) Song") == "(I) Song"
    assert bare_title("(planet)") == "(planet)"
    assert title_terms("The Queen of Norrland (film)") == frozenset(terms("queen norrland"))
    assert contains_title("When was Mary Quillfeather's garden made?", "Mary Quillfeather (botanist)")
    assert not contains_title("When did Quillfeather, called Mary, die?", "Mary Quillfeather")


@given(st.text())
def test_terms_of_any_text_are_lower_case_and_not_blank(text: str) -> None:
    for term in terms(text):
        assert term == term.casefold() and term.strip()


@given(st.text(alphabet="abcDE .!?\"'()12", max_size=60))
def test_sentences_keep_every_character_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It rained. He left.", 2),
        ("Dr. Ode met J. R. Krol in the U.S. Senate.", 1),
        ("It cost approx. 5 pounds. Then it rose.", 2),
        ('He said "Go." She went.', 2),
        ("Is it? Yes! It is.", 3),
        ("It has 3.5 km.", 1),
        ("", 0),
    ],
)
def test_sentence_ends(text: str, count: int) -> None:
    assert len(sentences(text)) == count


@given(st.lists(st.integers(), min_size=1), st.text())
def test_choice_depends_on_the_key_alone(options: list[int], key: str) -> None:
    assert choose(options, key) == choose(list(options), key)
    assert choose(options, key) in options
