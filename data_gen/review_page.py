"""The page that a person steps through with the keyboard to mark pairs: its frame, and what stands in it for each."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.partial import write_atomically
from tilewright.data_gen.html_page import document, link, text

REVIEW = "review.html"
LONGEST_TEXT = 4000  # characters of one value

Facts = Sequence[tuple[str, str]]  # (name, markup)


@dataclass(frozen=True)
class Article:
    """One pair. ``names`` go into its mark; ``shown`` is what it was made of, ``facts`` and ``decided`` describe it.

    ``shown``, ``below`` (under the query) and the values of facts are markup; the rest is text. ``decided`` is hidden
    until the pair is marked, under ``summary``.
    """

    names: Mapping[str, str]
    shown: str
    query: str
    below: str
    facts: Facts
    decided: Facts
    summary: str


def write_page(path: Path, articles: Sequence[Article], *, title: str, guide: str, sample: str) -> None:
    """Write the page of ``articles``, in their order. ``guide``: what a good one is; ``sample``: digest."""
    shown = [_article(number, article) for number, article in enumerate(articles, start=1)]
    body = _BODY.format(
        title=text(title),
        guide=text(guide),
        sample=sample,
        name=re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "review",
        articles="\n".join(shown) or "<p>The sample is empty.</p>",
    )
    write_atomically(path, document(f"Review: {title}", body, name="review", script=True))


def _article(number: int, article: Article) -> str:
    return (
        f'<article id="pair-{number}" aria-labelledby="query-{number}"'
        f' data-pair="{text(json.dumps(dict(article.names)))}">\n'
        f"{article.shown}\n"
        f'<div class="facts"><h2 id="query-{number}" dir="auto">{text(cut(article.query))}</h2>\n'
        f"{article.below}{_list(article.facts)}\n"
        f'<details class="decided"><summary>{text(article.summary)}</summary>{_list(article.decided)}</details></div>\n'
        "</article>"
    )


def _list(facts: Facts) -> str:
    rows = "".join(f"<dt>{text(cut(name))}</dt><dd>{value}</dd>" for name, value in facts)
    return f"<dl>{rows}</dl>"


def value(said: str) -> str:
    """The markup of a text of unknown length and direction."""
    return f'<span dir="auto">{text(cut(said))}</span>'


def address(url: str) -> str:
    """The markup of a page's URL."""
    return f'<span dir="auto">{link(url, cut(url))}</span>'


def cut(said: str) -> str:
    """``said``, or its beginning if it is very long."""
    return said if len(said) <= LONGEST_TEXT else f"{said[:LONGEST_TEXT]} … ({len(said)} characters)"


_BODY = """<header>
<h1 dir="auto">Review: {title}</h1>
<p class="guide">{guide}</p>
<nav aria-label="Pairs" hidden>
<button id="previous" aria-keyshortcuts="ArrowLeft k">Previous <kbd>k</kbd></button>
<span id="position"></span>
<button id="next" aria-keyshortcuts="ArrowRight j">Next <kbd>j</kbd></button>
<button id="unmarked" aria-keyshortcuts="f">First unmarked <kbd>f</kbd></button>
<button id="reveal" aria-pressed="false" aria-keyshortcuts="v">Verdicts <kbd>v</kbd></button>
<span class="files"><button id="save" aria-keyshortcuts="s">Save marks <kbd>s</kbd></button>
<button id="load" aria-keyshortcuts="o">Load <kbd>o</kbd></button>
<input id="file" type="file" accept=".jsonl" aria-label="A file of marks" hidden></span>
</nav>
<div id="strip" aria-hidden="true"></div>
<noscript><p>Marking needs JavaScript; without it, all pairs are shown.</p></noscript>
</header>
<main data-sample="{sample}" data-name="{name}">
{articles}
</main>
<footer hidden>
<div class="marks" role="group" aria-label="Mark of this pair">
<button id="good" aria-pressed="false" aria-keyshortcuts="g 1">Good <kbd>g</kbd></button>
<button id="bad" aria-pressed="false" aria-keyshortcuts="b 2">Bad <kbd>b</kbd></button>
<button id="unsure" aria-pressed="false" aria-keyshortcuts="u 3">Unsure <kbd>u</kbd></button>
<button id="undo" aria-keyshortcuts="z">Undo <kbd>z</kbd></button>
</div>
<label>Note <kbd>n</kbd> <textarea id="note" rows="1" maxlength="2000"></textarea></label>
<p class="tally"><span id="tally"></span> <span id="said" role="status"></span></p>
</footer>"""
