"""The evidence trace: a fragment is whole only in one text, and lost where the first stage lacks it."""

import pytest

from tilewright.eval.evidence.trace import STAGES, Passage, Trace, shares, trace

FRAGMENT = "Song B, 1964: peak 12"
WHOLE = "He wrote  Song B,\n1964: peak 12 in the US."
LOOSE = "song b 1964 peak 12"
BROKEN = ["Song B, 1964:", "peak 12"]


def passage(**changes: list[str] | None) -> Passage:
    texts = {stage: [WHOLE] for stage in STAGES} | changes
    return Passage(**texts)  # type: ignore[arg-type]


def test_whole_everywhere() -> None:
    found = trace([FRAGMENT], passage())
    assert all(found.exact.values()) and all(found.tolerant.values()) and found.lost_at == ""


@pytest.mark.parametrize("stage", STAGES)
def test_lost_where_one_text_does_not_have_all_of_it(stage: str) -> None:
    found = trace([FRAGMENT], passage(**{stage: BROKEN}))
    assert found.lost_at == stage and not found.exact[stage]
    assert sum(found.tolerant.values()) == len(STAGES) - 1


def test_tolerant_reading_forgives_case_and_marks() -> None:
    found = trace([FRAGMENT], passage(reader=[LOOSE]))
    assert not found.exact["reader"] and found.tolerant["reader"]
    assert trace(["...", "peak twelve", FRAGMENT], passage()).lost_at == "", "any spelling will do"
    assert not trace(["1964"], passage(reader=["19640"])).tolerant["reader"], "whole words only"
    assert trace(["..."], passage()).lost_at == "source", "marks alone stand nowhere"


def test_shares_say_what_each_stage_has_and_where_it_went() -> None:
    lost = passage(stored=BROKEN, candidates=BROKEN, reader=BROKEN)
    found_again = passage(extraction=BROKEN, stored=BROKEN)
    rows = [passage(), lost, found_again, passage(source=None, reader=[LOOSE])]
    made = shares(trace([FRAGMENT], row) for row in rows)
    assert made["tolerant"] == {"source": 1.0, "extraction": 0.75, "stored": 0.5, "candidates": 0.75, "reader": 0.75}
    assert made["exact"]["reader"] == 0.5 and made["n"] == 4 and made["recovered"] == 1
    assert made["lost"] == {stage: int(stage == "stored") for stage in STAGES}
    assert shares([])["n"] == 0 and isinstance(trace([FRAGMENT], rows[0]), Trace)
