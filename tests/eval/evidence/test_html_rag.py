"""HtmlRAG: cleaning, blocks, and the lowest removed first until the HTML fits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.evidence.html_rag import CleanPage, blocks_of, cleaned, pruned, render
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.rerankers import LexicalReranker

PAGE = (
    "<title>River</title><script>x</script><div class=a><div><div><p id=p>The Ister runs <b>east</b>.</p></div></div>"
    "<p></p><!-- c --><p>Fish &amp; birds &lt; plants</p></div><table><tr><th>Length<td>300 km<tr><td><td>deep</table>"
)


def words(text: str) -> int:
    return len(text.replace("<", " <").split())


def test_cleaning_drops_attributes_empty_elements_and_chains() -> None:
    assert render(cleaned(parse_html(PAGE))) == (
        "<html><body><div><p>The Ister runs<b>east</b>.</p><p>Fish &amp; birds &lt; plants</p></div>"
        "<table><tbody><tr><th>Length</th><td>300 km</td></tr><tr><td></td><td>deep</td></tr></tbody></table>"
        "</body></html>"
    )


def test_blocks_are_the_highest_nodes_that_are_short_enough() -> None:
    root = cleaned(parse_html(PAGE))
    assert [block.text for block in blocks_of(root, 99)] == [
        "The Ister runs east . Fish & birds < plants Length 300 km deep"
    ]
    assert [block.text for block in blocks_of(root, 5)] == [
        "The Ister runs east .",
        "Fish & birds < plants",
        "Length 300 km deep",
    ]
    assert len(blocks_of(root, 1)) == 7, "a longer text is one block"


def test_the_worst_blocks_go_first() -> None:
    pages = [CleanPage(parse_html(PAGE), 5)]
    text = pruned("how long is 300 km", pages, 26, words, LexicalReranker())
    assert "300 km" in text and "birds" not in text and words(text) <= 26
    assert "Ister" in pruned("where does the Ister run", pages, 12, words, LexicalReranker())
    assert pruned("Ister", pages, 2, words, LexicalReranker()) == "" == pruned("x", [], 99, words, LexicalReranker())


def test_a_best_block_that_is_too_long_alone_is_passed_over() -> None:
    page = CleanPage(parse_html(f"<p>Ister runs</p><p>Ister Danube{' x' * 38}</p>"), 41)
    assert len(page.blocks) == 2
    text = pruned("Ister Danube", [page], 12, words, LexicalReranker())
    assert text == "<html><body><p>Ister runs</p></body></html>"


@settings(max_examples=50)
@given(st.text("ab c<>/", max_size=80), st.integers(0, 40), st.integers(1, 8), st.sampled_from(["a", "ab c", ""]))
def test_what_is_left_fits(html: str, budget: int, max_words: int, query: str) -> None:
    trees = [parse_html(f"<p>{html}</p><ul><li>a b<li>c</ul>"), parse_html("<table><tr><td>a<td>b c d e</table>")]
    pages = [CleanPage(tree, max_words) for tree in trees]
    text = pruned(query, pages, budget, words, LexicalReranker())
    assert words(text) <= budget
    if budget >= 200:
        assert text == "\n".join(render(page.root) for page in pages)
