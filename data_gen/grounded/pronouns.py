"""Pronouns at the start of a sentence, where the paragraph leaves no doubt that they mean the page's subject."""

import re
from collections.abc import Iterator, Sequence

from tilewright.data_gen.grounded.names import Wording, is_person

_OF_PERSON = {"He": "", "She": "", "His": "'s", "Her": "'s"}
_OF_THING = {"It": "", "Its": "'s"}
LEADING = frozenset(_OF_PERSON) | frozenset(_OF_THING)


def resolved(found: Sequence[str], subject: str, wording: Wording) -> Iterator[tuple[str, str]]:
    """(sentence as it stands, sentence with a leading pronoun replaced by ``subject``) for a paragraph's sentences.

    *He* and *she* are replaced if the subject is a person and no other person was named since the paragraph began;
    *it* only right behind a sentence that starts with the subject. Others stay as they are.
    """
    about_person = is_person(subject, frozenset())
    others = {name for name in wording.persons if name.split()[-1] != subject.split()[-1]}
    named_other, about_subject = False, False
    for sentence in found:
        first, space, rest = sentence.partition(" ")
        ending = _OF_PERSON.get(first) if about_person and not named_other else None
        ending = _OF_THING.get(first) if ending is None and not about_person and about_subject else ending
        yield sentence, sentence if ending is None else f"{subject}{ending}{space}{rest}"
        about_subject = ending == "" or re.sub(r"^(?:The|An?) ", "", sentence).casefold().startswith(subject.casefold())
        named_other = named_other or any(name in sentence for name in others)
