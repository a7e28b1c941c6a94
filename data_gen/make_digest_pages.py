"""digest pages: split pairs -> further pages that restate what they ask about: facts then stand on several pages.

What makes false negatives: a tile that answers a query and isn't its positive. Real corpora are full of them (lists,
portals, copies); a small one is made so. A fact (a sentence, list item, table row or infobox pair that some pair was
made from) is restated word for word, under its page's title, on ``copies`` further pages, each time among others.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.grounded.terms import terms
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import Block, Page, QAPair, Tile, write_jsonl
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Document
from tilewright.data_gen.splits import SPLITS, pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id

ROOT = "https://digest-pages.invalid"  # .invalid is no host (RFC 2606)
SOURCE = "digest_pages"
COPIES = "copies.jsonl"
ROWS = ("infobox_row", "table_row")


@dataclass(frozen=True)
class Config:
    """Restates what the pairs of ``pairs`` (folder of split_pairs) ask about; ``tiles``: those that the pairs are of.

    ``copies``: how many further pages a fact stands on. ``facts_per_page``: of a digest page; which ones stand together
    is drawn by ``seed``, anew for each copy. ``splits``: which splits get digest pages; a page holds facts of one split
    and belongs to it. Training's validation knows one positive a query: leave out `validation` and it stays exact.
    """

    out: Path
    copies: int
    facts_per_page: int
    seed: int
    pairs: Path = input_path()
    tiles: Path = input_path()
    splits: tuple[str, ...] = ("train", "test")

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "copies", "facts_per_page")
        if not self.splits or not set(self.splits) <= set(SPLITS) or len(set(self.splits)) < len(self.splits):
            raise ValueError(f"splits: wanted some of {list(SPLITS)}, each once, found {list(self.splits)}")


@dataclass(frozen=True)
class Fact:
    """A statement of a page, by its title, and the pairs that ask about it."""

    title: str
    statement: str
    query_ids: tuple[str, ...]


@dataclass(frozen=True)
class Copy:
    """A line of COPIES: page ``page_id`` states ``statement``, which answers the queries ``query_ids``."""

    page_id: str
    statement: str
    query_ids: tuple[str, ...]


def make_digest_pages(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pages.jsonl (in order of page_id) and documents/ of the digest pages, COPIES, and ``splits``.

    ``splits/``: the files of ``pairs``, the digest pages added to their splits in pages.json: what mining and training
    on both kinds of pages need. Raises InputError for a split without pairs, a pair of another tile or one whose source
    holds no words to restate, and a pages.json of other splits.
    """
    store, folder = TileStore.open(inputs["tiles"]), PagesFolder(out)
    pages: list[Page] = []
    copies: list[Copy] = []
    added: dict[str, list[str]] = {}
    counts: Counts = {"facts": {}, "pages_by_split": {}}
    for split in config.splits:
        pairs = read_pair_file(inputs["pairs"] / f"{split}.jsonl")
        if not pairs:
            raise InputError(f"{inputs['pairs']}: wanted pairs in split {split}, found none; leave it out of `splits`")
        facts = facts_of(pairs, store)
        made = list(_digests(facts, split, config))
        added[split] = [page_id(url) for url, *_ in made]
        pages += [_stored(url, title, html, folder) for url, title, html, _ in made]
        copies += [Copy(page_id(url), fact.statement, fact.query_ids) for url, *_, held in made for fact in held]
        counts["facts"][split], counts["pages_by_split"][split] = len(facts), len(made)
    write_jsonl(out / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
    write_jsonl(out / COPIES, copies)
    _write_splits(inputs["pairs"], out / "splits", added)
    return {"pages": len(pages), "copies": len(copies), **counts}


def facts_of(pairs: Iterable[QAPair], store: TileStore) -> list[Fact]:
    """What ``pairs`` ask about, each statement of a page once, in the order of the pairs.

    Raises InputError for a pair of a tile that ``store`` lacks, and for one without words in its source.
    """
    asked: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        tile = store.light(pair.tile_id)
        statement = statement_of(pair, tile)
        if not terms(statement):
            raise InputError(f"{pair.query_id}: source_span: wanted words to restate, found {pair.source_span!r}")
        asked.setdefault((tile.title, statement), []).append(pair.query_id)
    return [Fact(title, statement, tuple(query_ids)) for (title, statement), query_ids in asked.items()]


def statement_of(pair: QAPair, tile: Tile) -> str:
    """The pair's source as a line of its own: of a row each cell after its label, else the sentence as it stands."""
    span = " ".join(pair.source_span.split())
    for block in tile.blocks:
        if block.kind in ROWS and " ".join(" ".join(block.cells).split()) == span:
            return "; ".join(_labelled(block))
    return span


def _labelled(block: Block) -> Iterator[str]:
    if block.kind == "infobox_row":
        yield ": ".join(cell.strip() for cell in block.cells)
        return
    labels = [*block.labels, *[""] * len(block.cells)]
    yield from (f"{label}: {cell}" if label else cell for label, cell in zip(labels, block.cells, strict=False) if cell)


def _digests(facts: Sequence[Fact], split: str, config: Config) -> Iterator[tuple[str, str, str, list[Fact]]]:
    """(URL, title, HTML, facts) of each digest page. Each fact stands on one page of each round."""
    for turn in range(config.copies):

        def drawn(fact: Fact, turn: int = turn) -> str:
            return hashlib.sha256(f"{config.seed}/{turn}/{fact.title}\n{fact.statement}".encode()).hexdigest()

        order = sorted(facts, key=drawn)
        for number, first in enumerate(range(0, len(order), config.facts_per_page)):
            held = order[first : first + config.facts_per_page]
            title = f"Digest {split} {turn + 1}-{number + 1}"
            yield f"{ROOT}/{config.seed}/{split}/{turn}/{number}", title, _html(title, held, turn), held


def _html(title: str, facts: Sequence[Fact], turn: int) -> str:
    pairs = [(escape(fact.title), escape(fact.statement)) for fact in facts]
    if turn % 3 == 0:
        body = "<ul>\n" + "\n".join(f"<li><b>{name}</b>: {text}</li>" for name, text in pairs) + "\n</ul>"
    elif turn % 3 == 1:
        body = "\n".join(f"<p><b>{name}</b>: {text}</p>" for name, text in pairs)
    else:
        rows = "\n".join(f"<tr><td>{name}</td><td>{text}</td></tr>" for name, text in pairs)
        body = f"<table>\n<tr><th>Article</th><th>Statement</th></tr>\n{rows}\n</table>"
    head = f'<meta charset="utf-8"><title>{title}</title>\n<style>{_STYLES[turn % len(_STYLES)]}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n'


_STYLES = (
    "body { font: 16px/1.3 sans-serif; margin: 8px }",
    "body { font: 16px/1.35 serif; margin: 8px 40px }",
    "body { font: 15px/1.3 sans-serif } td, th { border: 1px solid #aaa; padding: 2px 6px; text-align: left }",
)


def _stored(url: str, title: str, html: str, folder: PagesFolder) -> Page:
    data = html.encode("utf-8", errors="replace")
    digest = hashlib.sha256(data).hexdigest()
    identity = page_id(url)
    path, _ = folder.write(identity, Document(data, ".html", digest))
    return Page(identity, url, title, path, SOURCE, content_sha256=digest)


def _write_splits(source: Path, out: Path, added: Mapping[str, Sequence[str]]) -> None:
    out.mkdir(exist_ok=True)
    for split in SPLITS:
        write_jsonl(out / f"{split}.jsonl", read_pair_file(source / f"{split}.jsonl"))
    path = source / "pages.json"
    grown = {split: sorted({*pages_of_split(path, split), *page_ids}) for split, page_ids in added.items()}
    listed = json.loads(path.read_text(encoding="utf-8")) | grown
    (out / "pages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


STAGE = Stage("make_digest_pages", Config, make_digest_pages, schema=1)

if __name__ == "__main__":
    main(STAGE)
