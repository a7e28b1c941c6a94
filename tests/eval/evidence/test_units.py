"""Units of a page: what becomes one, with which context, in which order; long ones are cut without loss."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.long_units import cut, rough_tokens
from tilewright.eval.evidence.unit_builder import build_units, title_of
from tilewright.eval.evidence.units import ROW, Unit, UnitOptions

PLANTED = """<!doctype html><title>Band - Wiki</title><h1>Band</h1><h2>Discography</h2><h3>Singles</h3>
<table><caption>Charts</caption>
<tr><th rowspan=2>Year<th rowspan=2>Title<th colspan=2>Peak
<tr><th>UK<th>US
<tr><td rowspan=2>1964<td>Song A<td>1<td>7
<tr><td>Song B<td>3<td>12</table>"""


def texts(html: str, **options: bool) -> list[str]:
    return [unit.completed_text for unit in build_units(parse_html(html), options=UnitOptions(**options))]  # type: ignore[arg-type]


def test_labels_are_right_where_dom_order_gets_them_wrong() -> None:
    """Song B's row has three cells: by their number, 3 would be a title and 12 a peak."""
    faithful = build_units(parse_html(PLANTED))[-1]
    assert faithful.completed_text == (
        "Band > Discography > Singles > Charts\nYear: 1964 | Title: Song B | Peak > UK: 3 | Peak > US: 12"
    )
    assert faithful.header == ("Year", "Title", "Peak > UK", "Peak > US")
    assert faithful.values == ("1964", "Song B", "3", "12")
    by_number = build_units(parse_html(PLANTED), options=UnitOptions(pairing="dom"))[-1]
    assert by_number.body == "Year: Song B | Title: 3 | Peak: 12"


def test_lists_definitions_and_loose_text() -> None:
    html = (
        "<h1>T</h1><h2>A</h2><ul><li>one <b>x</b><ul><li>two<li>three</ul>tail<li><p>P1<p>P2</ul>"
        "<dl><dt>term<dt>t2<dd>def<ul><li>q</ul><dd>def2<dt>u<dd><p>only p</dl><dl><dt>alone</dl>"
        "<h3>B</h3><pre> a\n   b</pre>loose<div>d1<br>d2</div>"
        "<figure><img alt=ALT><figcaption>cap</figcaption></figure>"
    )
    assert texts(html) == [
        "T > A\none x",
        "T > A > one x\ntwo",
        "T > A > one x\nthree",
        "T > A > one x\ntail",
        "T > A\nP1",
        "T > A > P1\nP2",
        "T > A\nterm\nt2\ndef\ndef2",
        "T > A > term t2\nq",
        "T > A > u\nonly p",
        "T > A\nalone",
        "T > A > B\n a\n   b",
        "T > A > B\nloose",
        "T > A > B\nd1\nd2",
        "T > A > B\ncap; ALT",
    ]


def test_headings_are_context_and_close_their_level() -> None:
    html = "<h1>T</h1><p>0<h3>C</h3><p>1<h2>A</h2><p>2<h4>D</h4><p>3<h3>E</h3><p>4<h1>U</h1><p>5"
    assert texts(html) == ["T\n0", "T > C\n1", "T > A\n2", "T > A > D\n3", "T > A > E\n4", "T > U\n5"]


def test_what_is_no_content_is_left_out() -> None:
    html = (
        "<title>T</title><nav>menu</nav><div id=toc>contents</div><div class='navbox x'>box</div><p hidden>h"
        "<p style='display:none'>i<p>kept<sup class=reference>[1]</sup><span class=mw-editsection>edit</span>"
        "<ol class=references><li>source</ol><script>x</script>"
    )
    assert texts(html) == ["T\nkept"]
    assert texts(html, references=True) == ["T\nkept", "T\nsource"]


def test_rows_carry_captions_groups_and_what_tables_stand_in() -> None:
    html = (
        "<h1>T</h1><table><tr><th colspan=2>Title row<tr><th>Club<th>Record<tr><th colspan=2>North<tr><td>Roma"
        "<td>League: <table><tr><th>Season<th>Pts<tr><td>2001<td>75</table></table>"
        "<table role=presentation><tr><td><p>laid</p><td>out</table>"
    )
    assert texts(html) == [
        "T > Title row > North\nClub: Roma | Record: League:",
        "T > Title row > North > Record > Roma > League:\nSeason: 2001 | Pts: 75",
        "T\nlaid",
        "T\nout",
    ]


def test_a_table_in_a_cell_without_text_keeps_what_the_cell_stands_under() -> None:
    inner = "<table><tr><th>Season<th>Pts<tr><td>2001<td>75</table>"
    row = f"<tr><td><td>{inner}<tr><td>Lazio<td>none"
    html = f"<h1>T</h1><table><tr><th>Club<th>Record<tr><th colspan=2>North{row}</table>"
    assert texts(html) == [
        "T > North\nClub: Lazio | Record: none",
        "T > North > Record\nSeason: 2001 | Pts: 75",
    ]


def test_headers_and_groups_without_rows_are_not_lost() -> None:
    html = "<h1>T</h1><table><tr><td>a<td>b<tr><td colspan=2><b>end</b></table><table><tr><th>x<th>y</table>"
    assert texts(html) == ["T\na | b", "T\nend", "T\nx | y"]


def test_bare_units_have_no_context_and_no_labels() -> None:
    assert texts(PLANTED, completed=False)[-1] == "1964 | Song B | 3 | 12"


def test_paths_lead_to_the_elements_and_numbers_follow_the_page() -> None:
    tree = parse_html(PLANTED + "<ul><li>a<li>b</ul>")
    units = build_units(tree, page_id="p")
    assert [unit.pos for unit in units] == list(range(len(units)))
    assert [unit.unit_id for unit in units] == [f"p:{unit.pos}" for unit in units]
    assert [unit.path for unit in units] == sorted(unit.path for unit in units)
    for unit in units:
        node = tree.root
        for index in unit.path:
            node = node.children[index]
        assert node.tag == ("tr" if unit.kind == ROW else node.tag)


def test_title_is_the_first_heading_else_that_of_the_head() -> None:
    assert title_of(parse_html("<title>a</title><h1>b <i>c</i></h1>").root) == "b c"
    assert title_of(parse_html("<title>a</title><p>b").root) == "a"
    assert title_of(parse_html("").root) == ""


def test_long_units_are_cut_and_keep_their_context() -> None:
    sentence = "The tall tower of the old town was built in 1931 by masons. "
    units = build_units(parse_html(f"<h1>T</h1><p>{sentence * 60}<p>short"), options=UnitOptions(max_tokens=50))
    assert len(units) > 10 and all(rough_tokens(unit.body) <= 50 and unit.context == "T" for unit in units)
    assert all(unit.body.endswith("masons.") for unit in units[:-1])
    assert " ".join(unit.body for unit in units[:-1]) == (sentence * 60).strip()
    cells = "".join(f"<td>value number {n}" for n in range(60))
    row: list[Unit] = build_units(parse_html(f"<table><tr>{cells}</table>"), options=UnitOptions(max_tokens=50))
    assert len(row) > 2 and " | ".join(unit.body for unit in row) == " | ".join(f"value number {n}" for n in range(60))


@settings(max_examples=50)
@given(st.text(alphabet="ab .!?A1\n|", max_size=400), st.integers(1, 20))
def test_cutting_loses_nothing_but_spaces(text: str, most: int) -> None:
    parts = cut(text, most)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(rough_tokens(part) <= most for part in parts)


def pieces() -> st.SearchStrategy[str]:
    """HTML of nested blocks, inline elements and small tables, with words of its own."""
    words = st.integers(0, 99).map(lambda number: f"w{number} ")
    tags = st.sampled_from(["p", "div", "ul", "li", "dl", "dt", "dd", "b", "span", "blockquote", "pre", "figure", "td"])
    return st.recursive(
        words | st.just("<br>"),
        lambda inner: (
            st.builds(lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>", tags, st.lists(inner, max_size=4))
            | st.lists(st.lists(inner, min_size=1, max_size=3), min_size=1, max_size=3).map(
                lambda rows: (
                    "<table>" + "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) for row in rows) + "</table>"
                )
            )
        ),
        max_leaves=25,
    )


@settings(max_examples=50)
@given(pieces())
def test_every_word_of_a_page_is_in_a_unit(html: str) -> None:
    tree = parse_html(f"<title>T</title>{html}")
    shown = {word for unit in build_units(tree) for word in unit.completed_text.split()}
    assert {word for node in tree.root.walk() if not node.tag for word in node.text.split() if word != "T"} <= {
        part for word in shown for part in (word, word.strip(";:|>"))
    }
