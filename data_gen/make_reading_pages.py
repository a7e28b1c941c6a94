"""reading_pages: documentation and word lists -> pages of many styles that a small vision tower learns to read from.

Two kinds of pages, both with a style sheet of their own by chance:
- documentation: a stretch of an HTML file's text with its structure;
- generated: single words, names, numbers and codes in no order, in the layouts of wikis, documentation and news.

Nothing comes from an encyclopedia: Wikipedia's articles are what models are measured on. Sources that serve are
packages of Debian 12 (``apt-get download PACKAGE``, ``dpkg -x PACKAGE.deb sources``); the head of
configs/data_gen/make_reading_pages/nano.yaml lists them.
The folder is written as make_pages writes it: render_tiles renders it.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from random import Random

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.reading_documents import body_markup, lines_of, read_blocks, stretch
from tilewright.data_gen.reading_layout import ReadingLayout
from tilewright.data_gen.reading_style import Style, draw_style
from tilewright.data_gen.reading_text import ReadingText
from tilewright.data_gen.reading_words import ReadingWords, read_word_lists
from tilewright.data_gen.records import Page, write_jsonl
from tilewright.data_gen.sources.html_text import decode_html, read_head
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Document
from tilewright.data_gen.urls import page_id

ROOT = "https://reading-pages.invalid"  # .invalid is no host (RFC 2606)
SOURCE = "reading_pages"
SCREENS = (0.9, 3.7)  # least and most of what a page fills, in screens of 1024 px
MAX_FILE_BYTES = 1_000_000
OTHER_SHARE = 0.03  # of a documentation page's characters, at most, outside printable ASCII
LEAST_SCREENS = 0.6  # what a file must hold
FONTS = {
    "serif": 8.0, "sans-serif": 6.0, "Liberation Sans": 10.0, "Liberation Serif": 5.0, "DejaVu Sans": 5.0,
    "DejaVu Serif": 4.0, "Noto Sans": 5.0, "Noto Serif": 4.0, "Roboto": 4.0, "Open Sans": 4.0, "Lato": 3.0,
    "Carlito": 3.0, "Caladea": 2.0, "Linux Libertine O": 3.0, "Cantarell": 1.0, "FreeSans": 1.0, "FreeSerif": 1.0,
    "Liberation Sans Narrow": 0.5, "monospace": 0.7,
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """What make_reading_pages does.

    ``path``: a folder with HTML files at any depth, and word lists where the patterns of ``words`` say, relative to it
    (plain or gzip; of lists that hold more than words the words are taken). None: generated pages of invented words
    alone. ``fonts``: families and how often each is drawn; one that isn't installed looks like a common one.
    """

    out: Path
    seed: int
    documentation_pages: int
    generated_pages: int
    path: Path | None = input_path(default=None)
    words: tuple[str, ...] = ()
    fonts: Mapping[str, float] = field(default_factory=lambda: dict(FONTS))

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "documentation_pages", "generated_pages")
        if self.documentation_pages + self.generated_pages < 1:
            raise ValueError("documentation_pages + generated_pages: wanted at least 1 page, found 0")
        if self.path is None and (self.documentation_pages or self.words):
            raise ValueError("path: wanted the folder of the documentation and word lists, found null")
        if not self.fonts or min(self.fonts.values()) < 0 or sum(self.fonts.values()) <= 0:
            raise ValueError(f"fonts: wanted families with weights above 0, found {dict(self.fonts)}")


@dataclass(frozen=True)
class _Made:
    """A page before it is stored."""

    url: str
    title: str
    html: str


def make_reading_pages(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pages.jsonl (in order of page_id) and documents/. Raises InputError for sources that don't serve."""
    folder, counts = PagesFolder(out), Counter[str]()
    path = inputs.get("path")
    words = read_word_lists(path, config.words) if path is not None else ReadingWords((), ())
    made = itertools.chain(
        _documentation_pages(config, path, counts) if path is not None else (),
        (_generated_page(config, words, number) for number in range(config.generated_pages)),
    )
    pages = sorted((_stored(page, folder) for page in made), key=lambda page: page.page_id)
    write_jsonl(out / "pages.jsonl", pages)
    lists = {"words": len(words.words), "names": len(words.names)}
    return {"pages": len(pages), "documentation": config.documentation_pages, "generated": config.generated_pages} | (
        lists | counts
    )


def _stored(page: _Made, folder: PagesFolder) -> Page:
    data = page.html.encode("utf-8", errors="replace")
    digest = hashlib.sha256(data).hexdigest()
    identity = page_id(page.url)
    path, _ = folder.write(identity, Document(data, ".html", digest))
    return Page(identity, page.url, page.title, path, SOURCE, content_sha256=digest)


def _generated_page(config: Config, words: ReadingWords, number: int) -> _Made:
    random = Random(f"{config.seed}/generated/{number}")
    style = draw_style(random, config.fonts)
    text = ReadingText(words, random)
    title = text.title(1, 4)
    body = ReadingLayout(text, random, style).body(title, _lines(random, style))
    return _made(f"{ROOT}/{config.seed}/generated/{number}", title, body, style)


def _documentation_pages(config: Config, path: Path, counts: Counter[str]) -> Iterator[_Made]:
    """Pages of files in an order by chance; where files are fewer than pages, other stretches of the same ones."""
    files = [file for suffix in ("html", "htm") for file in path.rglob(f"*.{suffix}") if file.is_file()]
    order = sorted(files, key=lambda file: file.relative_to(path).as_posix())
    Random(f"{config.seed}/files").shuffle(order)
    number = 0
    while number < config.documentation_pages:
        before = number
        for file in order:
            if number == config.documentation_pages:
                break
            random = Random(f"{config.seed}/documentation/{number}")
            page = _documentation_page(config, file, number, random, counts)
            number += page is not None
            if page is not None:
                yield page
        if number == before:
            raise InputError(
                f"{path}: wanted {config.documentation_pages} pages of documentation, found none that serves in"
                f" {len(order)} HTML files ({dict(counts)})"
            )


def _documentation_page(config: Config, file: Path, number: int, random: Random, counts: Counter[str]) -> _Made | None:
    if file.stat().st_size > MAX_FILE_BYTES:
        counts["passed_over_large_files"] += 1
        return None
    source = decode_html(file.read_bytes())
    style = draw_style(random, config.fonts)
    lines = _lines(random, style)
    try:
        blocks = read_blocks(source)
    except AssertionError:  # html.parser gives up on `<![unknown[`
        counts["passed_over_malformed"] += 1
        return None
    chosen = stretch(blocks, style.line_characters, lines, random)
    text = "".join(block.text() for block in chosen)
    if sum(lines_of(block, style.line_characters) for block in chosen) < LEAST_SCREENS * style.screen_lines:
        counts["passed_over_short"] += 1
        return None
    if sum(char > "~" for char in text) > OTHER_SHARE * len(text):
        counts["passed_over_other_scripts"] += 1
        return None
    title = escape(read_head(source).title or file.stem, False)
    return _made(
        f"{ROOT}/{config.seed}/documentation/{number}", title, body_markup(chosen, random, style.line_characters), style
    )


def _lines(random: Random, style: Style) -> float:
    """How many lines of body text a page gets."""
    return random.uniform(*SCREENS) * style.screen_lines


def _made(url: str, title: str, body: str, style: Style) -> _Made:
    head = f'<meta charset="utf-8">\n<title>{title}</title>\n<style>\n{style.css}</style>'
    html = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    return _Made(url, unescape(title), html)


STAGE = Stage("make_reading_pages", Config, make_reading_pages, schema=1)

if __name__ == "__main__":
    main(STAGE)
