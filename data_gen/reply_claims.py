"""What the prose around a label claims by itself, and whether it leaves the label in doubt."""

import re
from enum import Enum, auto


class Polarity(Enum):
    """What a label says of an answer: it's right, it's wrong, or there's none."""

    RIGHT = auto()
    WRONG = auto()
    NONE = auto()


_FLAGS = re.IGNORECASE | re.ASCII
_NOT = r"(?:not|never|n't|cannot|no|nor|neither|hardly|barely)"
_GOOD = r"(?:correct|right|accurate|true|valid)"
_FEW = r"(?:[\w'-]{1,30}\s){0,3}"  # a few words between; bounded, so that no reply takes long

_SAYS_WRONG = re.compile(
    r"\b(?:incorrect(?:ly)?|wrong(?:ly)?|false|inaccurate|mistaken|erroneous|mismatch\w*|invalid|contradict\w*|untrue)\b"
    rf"|(?:\b{_NOT}|n't)\s{_FEW}"
    rf"(?:{_GOOD}|match\w*|agree\w*|correspond\w*|equal\w*|equivalent|consistent|support\w*|the same)\b",
    _FLAGS,
)
_SAYS_RIGHT = re.compile(
    rf"(?:\bis|\bare|\bwas|\bwere|'s|\bseems|\blooks)\s(?:(?!not\b|the\b|a\b|an\b)[\w'-]{{1,30}}\s){{0,2}}{_GOOD}\b"
    r"|\b(?:given|predicted|candidate|model|this|that|it|response|prediction)\b[\w' ]{0,24}\s(?:is|was)\s(?:the|a|an)"
    rf"\s{_GOOD}\b"
    r"|(?<!not )(?<!n't )\b(?:matches|agrees|corresponds|equals|is equivalent|is the same|matched)\b",
    _FLAGS,
)
_SAYS_NONE = re.compile(
    rf"(?:\bcan ?not|\bcan't|\bcould not|\bcouldn't|\bunable to|\bimpossible to)\s{_FEW}"
    r"(?:answer|determin|verif|tell|judge|say|decid|confirm|know|establish|infer)\w*"
    r"|\bunanswerable\b|\bnot attempted\b",
    _FLAGS,
)
_DOUBT = re.compile(
    r"\b(?:wait|hm+|unless|maybe|perhaps|probably|possibly|likely|partial(?:ly)?|partly|somewhat|almost|nearly|unsure|"
    r"uncertain|unclear|ambiguous|arguably|depends|second thoughts?|reconsider\w*|correction|scratch that|"
    r"i (?:think|guess|believe|suppose)|not (?:sure|certain|confident)|low confidence|just kidding|"
    r"sort of|kind of|could be|might|may be|seems?|either|mostly|on reflection|i mean|"
    r"sorry|apolog\w*|oops|retract\w*|change my|ignore)\b|\?|~~",
    _FLAGS,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|actually|except|yet|nevertheless|only if|whereas|differs?|different)\b", _FLAGS
)
_STARTS = r"(?:\A|[.!;:\n(]\s*)"  # of a sentence
_TURN = re.compile(
    rf"{_STARTS}(?:actually|or|and|if|but)\b|\b(?:no|not|n't|false|never|yes|true)[ .!)]*(?:\Z|\n)", _FLAGS
)
_DENIES = re.compile(rf"{_STARTS}(?:no|nope|not|never|nah|neither|none|false|0(?!\.))\b", _FLAGS)
_AFFIRMS = re.compile(rf"{_STARTS}(?:yes|yeah|yep|indeed|true|1(?!\.))\b", _FLAGS)
_QUOTES = re.compile(
    r"\b(?:says?|said|reads?|states?|stated|shows?|writes?|written|claims?|examples?|instance|e\.g|schema|template|"
    r"instruct\w*|(?:reply|respond|answer|form) (?:with|as|in|of|like)|options?|choose|"
    r"false|not|never|would|should|must|could|can|if)\b"
    r"|n't\b|(?<!requested )(?<!required )(?<!json )(?<!specified )\bformat\b",
    _FLAGS,
)


def quotes(line: str) -> bool:
    """Whether ``line`` presents what follows it as somebody else's words, an example, or what isn't so."""
    return _QUOTES.search(line) is not None


def leaves_doubt(text: str, polarity: Polarity | None) -> bool:
    """Whether ``text``, standing after a label of ``polarity``, hedges it, turns against it or says another thing.

    Errs on the side of doubt: a doubted reply is asked for again, a misread one is a wrong label.
    """
    turns = (_CONTRAST, _DENIES) if polarity is Polarity.RIGHT else (_AFFIRMS,) if polarity else ()
    return any(turn.search(text) for turn in (_DOUBT, _TURN, *turns)) or contradicts(text, polarity)


def contradicts(text: str, polarity: Polarity | None) -> bool:
    """Whether ``text`` states something else than a label of ``polarity``; deliberation is no statement.

    "The correct answer is 1889" doesn't contradict a label that says wrong.
    """
    if polarity is None:
        return False
    says = {
        Polarity.RIGHT: _SAYS_RIGHT.search(text) is not None,
        Polarity.WRONG: _SAYS_WRONG.search(text) is not None,
        Polarity.NONE: _SAYS_NONE.search(text) is not None,
    }
    return any(said for claim, said in says.items() if claim is not polarity)
