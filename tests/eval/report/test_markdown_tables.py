"""Pipe tables as another program reads them: whatever a cell holds reads as it was given."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tilewright.eval.report.markdown_tables import markdown_of, pipe_table
from tilewright.eval.report.markup import table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TEXTS = st.text(st.sampled_from("ab0_*`~[](){}<>&;#|\\!\"' \n-:.lt/=$"), max_size=12)


def read(markdown: str) -> list[str]:
    """The texts of all cells and captions; nothing in them may be more than text."""
    texts = []
    for token in READER.parse(markdown):
        if token.type == "inline":
            parts = [part for part in token.children or [] if part.type != "text" or part.content]
            kinds = [part.type for part in parts]
            assert kinds in ([], ["text"], ["em_open", "text", "em_close"]), markdown  # the last is a caption
            texts.append("".join(part.content for part in parts))
    return texts


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@example("bm25* − tiles*, paired")
@example("~~a~~ `b` _c_ __d__ *e* [f](http://g) ![h](i) &lt; &#42; <b> \\| \\")
def test_a_cell_reads_as_it_was_given(text: str) -> None:
    wanted = " ".join(text.split())
    assert read(pipe_table(["Row", "n"], [["x", text]])) == ["Row", "n", "x", wanted]
    caption = f"Said {text} so"
    assert read(markdown_of(table(["Row", "n"], [["x", text]], caption))) == [
        " ".join(caption.split()), "Row", "n", "x", wanted
    ]  # fmt: skip


def test_what_needs_no_mark_has_none() -> None:
    line = "evidence_recall_string, 12.3 [8.1, 17.0], a & b; ~5 (x)"
    assert pipe_table([line, "n"], []).splitlines()[0] == f"| {line} | n |"
