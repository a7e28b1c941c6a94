"""The tree: html5lib's on the given tables and odd pages, bounded on hostile ones."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tilewright.eval.evidence.html_bounds import MAX_ATTRIBUTES, MAX_DEPTH, bounded
from tilewright.eval.evidence.html_tree import Node, parse_html

html5lib = pytest.importorskip("html5lib")
Plain = tuple[str, dict[str, str], list[Any]] | str
ODD = [
    "<p>a<p>b<div>c</p>d",
    "<ul><li>one<li>two<ul><li>three</ul></ul>",
    "<table><tr><td>1<td>2<tr><th>3</table>after",
    "<table>fostered<tr><td>x</table>",
    "<b>1<p>2</b>3</p>4",
    "<p>a<!-- comment -->b<script>var x = '<p>';</script>c<style>p{}</style>",
    "<dl><dt>t<dd>d<dt>u<dd>e</dl>",
    "<a href='?a=1&amp;b=2' title=x>l</a> &nbsp;&lt;&#x1F600;",
    "<!doctype html><title>T</title><h1>H</h1>text",
    "plain text",
    "<select><option>1<option>2</select><svg><path d=z /></svg>",
    "<pre>\n line\n  two</pre>",
]


def plain(node: Node) -> Plain:
    """A small tree as tuples, attributes without a value as ""."""
    if not node.tag:
        return node.text
    return node.tag, {name: value or "" for name, value in node.attributes.items()}, [plain(c) for c in node.children]


def plain_html5lib(element: Any) -> Plain:
    """An ElementTree of html5lib as tuples, without what our tree leaves out."""
    children: list[Plain] = []

    def add(text: str | None) -> None:
        if text and children and isinstance(children[-1], str):
            children[-1] += text
        elif text:
            children.append(text)

    add(element.text)
    for child in element:
        if isinstance(child.tag, str) and child.tag not in ("script", "style", "template"):
            children.append(plain_html5lib(child))
        add(child.tail)
    return element.tag.rpartition("}")[2], dict(element.attrib), children


def test_trees_equal_those_of_html5lib(table_cases: list[dict[str, Any]]) -> None:
    for html in [case["html"] for case in table_cases] + ODD:
        wanted = html5lib.parse(html, treebuilder="etree", namespaceHTMLElements=False)
        assert plain(parse_html(html).root) == plain_html5lib(wanted), html


def test_paths_and_document_order() -> None:
    root = parse_html("<p>a<b>c</b></p><p>d").root
    paths = [node.path for node in root.walk()]
    assert paths == sorted(paths) and paths[0] == () and len(set(paths)) == len(paths)
    for node in root.walk():
        found = root
        for index in node.path:
            found = found.children[index]
        assert found is node


def test_odd_characters_are_no_trouble() -> None:
    text = "".join(node.text for node in parse_html("a\0b\ud800c<p>\0d").root.walk())
    assert "\0" not in text and {"a", "b", "c", "d"} <= set(text)


def test_ordinary_pages_are_passed_on_as_they_are() -> None:
    page = "<div class='a>b' title=\"it's\"><p>text <b>bold</b><br><ul><li>one<li>two</ul></div><!-- </div> -->" * 500
    assert bounded(page) is page


def test_what_is_too_deep_keeps_its_text() -> None:
    html = "".join(f"<div>t{number} " for number in range(3_000))
    root = parse_html(html).root
    assert max(len(node.path) for node in root.walk()) <= MAX_DEPTH + 2
    assert "".join(node.text for node in root.walk()).split() == [f"t{number}" for number in range(3_000)]


def test_flattening_keeps_order_attributes_and_quotes() -> None:
    deep = "<i>" * 3_000 + "<p title='a>b' class=\"x y\">1 &lt; 2</p><table><tr><td colspan=2>c</table><br>end"
    nodes = list(parse_html(deep).root.walk())
    assert "".join(node.text for node in nodes) == "1 < 2cend"
    many = "<p " + " ".join(f"a{number}=1" for number in range(9_000)) + ">x</p>"
    paragraph = next(node for node in parse_html(many).root.walk() if node.tag == "p")
    assert len(paragraph.attributes) == MAX_ATTRIBUTES


def test_limits_cut_and_say_so() -> None:
    assert not parse_html("<p>a" * 100).cut
    assert parse_html("<p>a" * 100, max_nodes=50).cut
    cut = parse_html("<p>a" * 100, max_chars=41)
    assert cut.cut and sum(node.tag == "p" for node in cut.root.walk()) == 10


HOSTILE = {
    "nested divs": "'<div>' * 100_000",
    "nested tables": "'<table><tr><td>' * 20_000",
    "formatting copied into paragraphs": "'<p>' + ''.join(f'<b id={i}>' for i in range(3000)) + '<p>x' * 8_000",
    "one tag with many attributes": "'<p ' + ' '.join(f'a{i}=1' for i in range(100_000)) + '>x'",
    "nothing closed": "'<b><i><a href=x><div><p>t' * 8_000",
    "open quotes": "'<a \">\"' * 30_000",
    "NUL bytes": "'\\0<p>\\0' * 20_000",
    "end tags only": "'</p></div></table>' * 20_000",
}
PARSE = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, ({cpu}, {cpu}))
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.unit_builder import build_units
tree = parse_html({html})
print(json.dumps([sum(1 for _ in tree.root.walk()), tree.cut, len(build_units(tree))]))
"""


def parse_limited(html: str, cpu_s: int) -> list[Any]:
    """[nodes, cut, units] by a process that may use so much CPU time and 4 GiB."""
    code = PARSE.format(cpu=cpu_s, html=html)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    made: list[Any] = json.loads(done.stdout)
    return made


def test_hostile_pages_are_bounded() -> None:
    html = "[" + ", ".join(HOSTILE.values()) + "]"
    code = PARSE.replace("tree = parse_html({html})", "for html in {html}:\n    tree = parse_html(html)")
    code = code.replace("print(", "    print(")
    done = subprocess.run(
        [sys.executable, "-c", code.format(cpu=120, html=html)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(HOSTILE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "html", ["'<p>hello <b>world</b></p>' * 2_000_000", "'<div><p>' * 6_000_000", "'<td>' * 12_000_000"]
)
def test_a_page_of_50_mb_is_cut(html: str) -> None:
    nodes, cut, _ = parse_limited(html, 300)
    assert cut and nodes <= 1_000_001
