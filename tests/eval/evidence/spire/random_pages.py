"""Random pages as HTML, for property tests: headings, paragraphs with inline markup, lists, tables, odd nesting."""

from hypothesis import strategies as st

WORDS = st.sampled_from(
    ["Warsaw", "Dr. Who", "is old.", "It rains!", "U.S. law", "Why?", "1965", "e.g. this", "Twice.", "ends:", "çà", "—"]
)
INLINE = st.recursive(
    st.lists(WORDS, min_size=1, max_size=4).map(" ".join),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["b", "a", "i", "span"]), inner).map(lambda x: f"<{x[0]}>{x[1]}</{x[0]}>"),
        st.tuples(inner, inner).map(lambda x: f"{x[0]} {x[1]}"),
        st.tuples(inner, inner).map(lambda x: f"{x[0]}<br>{x[1]}"),
        inner.map(lambda x: f"{x}<sup class=reference>[1]</sup><!-- c -->\n "),
    ),
    max_leaves=6,
)


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=3).map("".join)
    cells = st.lists(st.tuples(st.sampled_from(["td", "th", "td colspan=2", "td rowspan=2"]), inner), max_size=3)
    row = cells.map(lambda cells: "<tr>" + "".join(f"<{tag}>{text}" for tag, text in cells) + "</tr>")
    table = st.lists(row, min_size=1, max_size=3).map("".join)
    return st.one_of(
        several,
        several.map(lambda x: f"<div>{x}</div>"),
        st.lists(inner, min_size=1, max_size=3).map(lambda x: "<ul>" + "".join(f"<li>{y}" for y in x) + "</ul>"),
        st.tuples(inner, inner).map(lambda x: f"<dl><dt>{x[0]}<dd>{x[1]}</dl>"),
        st.tuples(st.text("ab", max_size=1), table).map(
            lambda x: f"<table>{'<caption>Caption here' if x[0] else ''}{x[1]}</table>"
        ),
    )


TEXTS = st.one_of(
    INLINE.map(lambda text: f"<p>{text}</p>"),
    INLINE,
    st.tuples(st.integers(1, 4), INLINE).map(lambda x: f"<h{x[0]}>{x[1]}</h{x[0]}>"),
)
BODIES = st.lists(st.recursive(TEXTS, _blocks, max_leaves=8), max_size=4).map("".join)
PAGES = st.tuples(st.sampled_from(["", "<title>A page</title>", "<title>Warsaw</title><h1>Warsaw</h1>"]), BODIES).map(
    "".join
)
