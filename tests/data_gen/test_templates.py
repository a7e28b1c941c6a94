"""What templates, infoboxes, quotes and old TeX become, by table."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.sources.infobox_labels import readable_label
from tilewright.data_gen.sources.tex import readable_tex
from tilewright.data_gen.sources.wikitext import Wikitext, close_quotes, tidy

BASE = "https://en.wikipedia.org/wiki/"


def rendered(text: str) -> str:
    return tidy(Wikitext("Page", BASE).render(text))


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("{{birth date|1912|6|23}}", "June 23, 1912"),
        ("{{Birth date and age|df=yes|1912|06|23}}", "23 June 1912"),
        ("{{death date and age|1954|6|7|1912|6|23}}", "June 7, 1954 (aged 41)"),
        ("{{death date and age|df=y|1954|6|23|1912|6|23}}", "23 June 1954 (aged 42)"),
        ("{{start date|1969|7}}", "July 1969"),
        ("{{start date|1969}}", "1969"),
        ("{{start-date|July 16, 1969}}", "July 16, 1969"),
        ("{{dts|1969|July|16}}", "July 16, 1969"),
        ("{{birth year and age|1950}}", "1950"),
        ("{{convert|10|km|mi|abbr=on}}", "10&nbsp;km"),
        ("{{convert|3|to|5|km2|sqmi}}", "3&nbsp;to&nbsp;5&nbsp;km²"),
        ("{{convert|5|ft|11|in|cm}}", "5&nbsp;ft&nbsp;11&nbsp;in"),
        ("{{convert|20|C|F}}", "20&nbsp;°C"),
        ("{{convert|7|-|10|kg}}", "7–10&nbsp;kg"),
        ("{{nowrap|a {{small|b}}}}", "a b"),
        ("{{lang|fr|Bonjour}}", "Bonjour"),
        ("{{lang-ar|سلام}}", "Arabic: سلام"),
        ("{{lang-la|pax}}", "Latin: ''pax''"),
        ("{{ubl|a|b}}", '<ul class="plainlist"><li>a</li><li>b</li></ul>'),
        ("{{plainlist|\n* a\n* b\n}}", '<ul class="plainlist"><li>a</li><li>b</li></ul>'),
        ("{{hlist|a|b}}", "a · b"),
        ("{{chem|H|2|O}}", "H<sub>2</sub>O"),
        ("{{chem|SO|4|2-}}", "SO<sub>4</sub><sup>2-</sup>"),
        ("{{frac|1|2}}", "1⁄2"),
        ("{{val|1.5|u=kg|e=3}}", "1.5×10<sup>3</sup>&nbsp;kg"),
        ("{{nihongo|Aikido|合気道|aikidō}}", "Aikido (合気道, ''aikidō'')"),
        ("{{coord|12|30|5|N|69|58|W|display=inline,title}}", "12°30′5″N 69°58′W"),
        ("{{Coord|12.5|-69.9|type:city}}", "12.5°, -69.9°"),
        ("{{coord|12|30|N|69|58|W|display=title}}", ""),
        ("{{as of|2010|5}}", "As of May 2010"),
        ("{{marriage|Ada|1835|1852}}", "Ada (1835–1852)"),
        ("{{USS|Hornet|CV-12}}", "USS ''Hornet''"),
        ("{{NED}}", "NED"),
        ("{{unknown thing|x}}text{{citation needed}}", "text"),
        ("a<ref>{{cite web|title=x}}</ref> b<ref name=y />", "a b"),
        ("Adobe ({{IPAc-en|a}}; {{IPA-es|b|lang}}, from Spanish)", "Adobe (from Spanish)"),
        ("Ada ({{IPAc-en|a}}) wrote", "Ada wrote"),
        ("cost $5 (${{inflation|US|5|1929}} in dollars) then", "cost $5 then"),
        ("<!-- secret -->shown __NOTOC__", "shown "),
        ("[[File:A.jpg|thumb|A [[cat]]]]x[[Category:Y]][[de:Z]][[Image:B.png]]", "x"),
        ("[[Emmy Award]]s", f"[{BASE}Emmy_Award Emmy Awards]"),
        ("[[alan Turing|him]]", f"[{BASE}Alan_Turing him]"),
        ("[[C.I.A.]]", f"[{BASE}C%2EI.A%2E C.I.A.]".replace("C%2EI", "C.I")),
        ("[http://x.org/a label] [http://x.org/b]", "[http://x.org/a label] "),
        ("{{main|History of Algeria}}\nText", ": ''Main article: History of Algeria''\n\nText"),
        ("'''{{unknown}}'''", ""),
        ("<script>alert(1)</script><span onclick='x()'>y</span>", "<span>y</span>"),
    ],
)
def test_rendering(wikitext: str, expected: str) -> None:
    assert rendered(wikitext).strip() == expected.strip()


def test_removed_templates_are_counted_by_name() -> None:
    renderer = Wikitext("Page", BASE)
    renderer.render("{{Odd_box|a}} {{odd box}} {{cn}}")
    assert dict(renderer.removed) == {"odd box": 2}


def test_self_nested_templates_end() -> None:
    assert "x" in rendered("{{small|" * 60 + "x" + "}}" * 60 + " x")


INFOBOX = """{{Infobox scientist
| name = Alan ''Turing''
| image = Turing.jpg
| caption = In 1930
| birth_name = Alan Mathison Turing
| birth_date = {{birth date|1912|6|23|df=yes}}
| birth_place = [[London]]
| death_date = {{death date and age|1954|6|7|1912|6|23}}
| fields = {{plainlist|
* Logic
* Biology
}}
| leader_title1 = [[Mayor]]
| leader_name1 = Ada
| population_year = 2014
| population_total = 12
| population = 85
| LargestCity = Manchester
| TotalAreaUS = 5
| empty =
| signature = Sig.svg
| orbit = {{Infobox orbit | period = 2 hours }}
| known_for = <script>x</script>Machines
}}"""


def test_infobox_rows() -> None:
    table = rendered(INFOBOX)
    rows = re.findall(r"<tr><th[^>]*>(.*?)</th>(?:<td>(.*?)</td>)?</tr>", table, re.DOTALL)
    assert rows[0] == ("Alan ''Turing''", "")
    values = dict(rows[1:])
    assert values["Born"] == f"Alan Mathison Turing<br>23 June 1912<br>[{BASE}London London]"
    assert values["Died"] == "June 7, 1954 (aged 41)"
    assert values["Fields"] == '<ul class="plainlist"><li>Logic</li><li>Biology</li></ul>'
    assert values[f"[{BASE}Mayor Mayor]"] == "Ada"
    assert values["Population"] == "85 (2014)"
    assert values["Largest city"] == "Manchester"
    assert values["Total area (sq mi)"] == "5"
    assert values["Orbit"] == "" and values["Period"] == "2 hours"
    assert values["Known for"] == "Machines"
    assert not {"Image", "Caption", "Empty", "Signature", "Name"} & values.keys()


def test_infobox_without_rows_is_nothing() -> None:
    assert rendered("{{Infobox x | image = A.png | style = color:red}}") == ""


def test_infobox_title_is_the_page_escaped() -> None:
    table = Wikitext("A & <b>", BASE).render("{{Infobox x | genre = y}}")
    assert ">A &amp; &lt;b&gt;</th>" in table


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("birth_date", "Birth date"),
        ("LargestCity", "Largest city"),
        ("lowestelevus", "Lowest elevation (ft)"),
        ("coach2", "Coach"),
        ("gdp_ppp_per_capita", "GDP PPP per capita"),
        ("alma_mater", "Alma mater"),
    ],
)
def test_labels(key: str, label: str) -> None:
    assert readable_label(key) == label


def test_tables_keep_spans_and_cells() -> None:
    table = rendered(
        '{| class="wikitable" style="color:red"\n|+ Cap\n! rowspan=2 | A !! B\n|-\n'
        "| colspan='2' onclick=x | 1 || ''2\n|}"
    )
    assert '<table class="wikitable">' in table
    assert "<caption>Cap</caption>" in table
    assert '<th rowspan="2">A</th>' in table and "<th>B</th>" in table
    assert '<td colspan="2">1</td>' in table and "<td>''2''</td>" in table
    assert "onclick" not in table and "color" not in table
    assert rendered('{| class="navbox"\n| links\n|}').strip() == ""


def test_empty_sections_go_and_full_ones_stay() -> None:
    text = rendered(
        "Lead\n== A ==\n=== A1 ===\ntext\n== B ==\n{{reflist}}\n== C ==\n=== C1 ===\n<references />\n== D ==\nx"
    )
    assert re.findall(r"=+ (\w+) =+", text) == ["A", "A1", "D"]


@pytest.mark.parametrize(
    ("line", "closed"),
    [
        ("''a", "''a''"),
        ("'''a", "'''a'''"),
        ("'''''a", "'''''a'''''"),
        ("''a'' '''b'''", "''a'' '''b'''"),
        ("it's", "it's"),
    ],
)
def test_quotes_close_with_their_line(line: str, closed: str) -> None:
    assert sorted(close_quotes(line)) == sorted(closed)
    assert close_quotes(close_quotes(line)) == close_quotes(line)


@pytest.mark.parametrize(
    ("tex", "modern"),
    [
        (r"{a \over b}", r"{\frac{a }{ b}}"),
        (r"x {\rm d}t", r"x \mathrm{d}t"),
        (r"\frac12", r"\frac12"),
        (r"a \over b", r"a \over b"),
        (r"{{a}\over{b}} + {c \over {d \over e}}", r"{\frac{{a}}{{b}}} + {\frac{c }{ {\frac{d }{ e}}}}"),
    ],
)
def test_tex(tex: str, modern: str) -> None:
    assert readable_tex(tex) == modern


@given(st.lists(st.sampled_from(["{", "}", r"\over ", r"\over{", "x", r"{\rm ", "$"]), max_size=30))
def test_tex_always_ends(parts: list[str]) -> None:
    assert isinstance(readable_tex("".join(parts)), str)


@given(st.text(alphabet="[]{}|'=*#:;<>!-\n\t &abF/.:", max_size=80))
def test_any_text_renders(text: str) -> None:
    assert isinstance(rendered(text), str)
