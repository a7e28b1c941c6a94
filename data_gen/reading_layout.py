"""Generated reading pages: blocks as on wikis, documentation and news, filled with words drawn by themselves."""

from collections.abc import Callable, Iterator
from math import ceil
from random import Random

from tilewright.data_gen.reading_style import TABLES, Style
from tilewright.data_gen.reading_text import ReadingText, is_tight, longest_word, shown_length

_WEIGHTS = {
    "paragraph": 44, "bullets": 9, "numbered": 5, "definitions": 5, "table": 13, "key_values": 5, "form": 3, "box": 5,
    "columns": 5, "figure": 4, "code": 4, "quotation": 3, "wide_list": 4,
}  # fmt: skip
Block = tuple[str, float]  # markup, and about how many lines of body text it is high


class ReadingLayout:
    """Blocks for one page in ``style``, drawn with ``random``."""

    def __init__(self, text: ReadingText, random: Random, style: Style) -> None:
        self._text, self._random, self._style = text, random, style

    def body(self, title: str, lines: float) -> str:
        """A page of about ``lines`` lines that begins with ``title`` (markup)."""
        parts, height = [], 0.0
        for markup, high in self._blocks(title):
            parts.append(markup)
            height += high
            if height >= lines:
                break
        if self._random.random() < 0.5:
            parts.append(self._footnotes())
        if self._random.random() < 0.3:
            parts.append(self._navigation())
        return "\n".join(parts)

    def _blocks(self, title: str) -> Iterator[Block]:
        random = self._random
        if random.random() < 0.4:
            yield self._navigation(), 1.5
        yield f"<h1>{title}</h1>", 2.5
        if random.random() < 0.3:
            yield f'<p class="fine">{self._text.plain(4, 12)}</p>', 1
        if random.random() < 0.6:
            yield self._infobox()
        section = random.uniform(0.15, 0.5)
        kinds: dict[str, Callable[[], Block]] = {name: getattr(self, f"_{name}") for name in _WEIGHTS}
        yield self._paragraph()
        while True:
            if random.random() < section:
                level = random.choice((2, 2, 2, 3, 3, 4))
                yield f"<h{level}>{self._text.title(1, 5)}</h{level}>", 1.8
            if random.random() < 0.05:
                yield self._infobox()
            yield kinds[random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]]()

    def _lines(self, characters: float, width: float = 1.0) -> int:
        """How many lines that many characters take in a column of that share of the page."""
        return ceil(characters / max(self._style.line_characters * width, 1))

    def _some(self, lines: int) -> str:
        return self._text.paragraph(self._random.randint(1, lines) * self._style.line_characters)

    def _paragraph(self) -> Block:
        text = self._some(7)
        return f"<p>{text}</p>", self._lines(shown_length(text)) + 0.5

    def _item(self) -> str:
        random, text = self._random, self._text
        if random.random() < 0.3:
            return f"{text.link(1, 3)} - {text.sentence()}"
        return text.sentence() if random.random() < 0.6 else text.plain(2, 8)

    def _items(self, tag: str) -> Block:
        items = [self._item() for _ in range(self._random.randint(3, 9))]
        markup = "".join(f"<li>{item}</li>\n" for item in items)
        return f"<{tag}>\n{markup}</{tag}>", sum(self._lines(shown_length(item)) for item in items) + 0.8

    def _bullets(self) -> Block:
        return self._items("ul")

    def _numbered(self) -> Block:
        return self._items("ol")

    def _wide_list(self) -> Block:
        """Many short entries in two columns."""
        items = [self._text.link(1, 2) if self._random.random() < 0.5 else self._text.plain(1, 3) for _ in range(16)]
        markup = "".join(f"<li>{item}</li>" for item in items)
        return f'<div class="cols"><ul>{markup}</ul></div>', 8.5

    def _definitions(self) -> Block:
        pairs = [(self._text.title(1, 3), self._item()) for _ in range(self._random.randint(2, 6))]
        markup = "".join(f"<dt>{term}</dt><dd>{meaning}</dd>\n" for term, meaning in pairs)
        return f"<dl>{markup}</dl>", sum(1 + self._lines(shown_length(meaning)) for _, meaning in pairs) + 0.5

    def _table(self) -> Block:
        random, text = self._random, self._text
        columns = random.randint(2, max(2, min(7, self._style.line_characters // 16)))
        rows = random.randint(3, 11)
        wide = random.randrange(columns) if random.random() < 0.3 else -1
        labels = [text.label() for _ in range(columns)]
        head = "".join(f"<th>{label}</th>" for label in labels)
        longest = [longest_word(label) for label in labels]
        first = random.choice(("td", "td", "th"))
        lines, body = 1.5, []
        for _ in range(rows):
            cells = [text.plain(4, 9) if column == wide else text.value() for column in range(columns)]
            longest = [max(length, longest_word(cell)) for length, cell in zip(longest, cells, strict=True)]
            lines += 0.4 + max(self._lines(shown_length(cell), 0.9 / columns) for cell in cells)
            body.append(f"<tr><{first}>{cells[0]}</{first}>{''.join(f'<td>{cell}</td>' for cell in cells[1:])}</tr>")
        caption = f"<caption>{text.title(2, 6)}</caption>" if random.random() < 0.4 else ""
        number = random.randrange(TABLES)
        tight = " tight" if is_tight(longest, self._style.line_characters) else ""
        return f'<table class="t{number}{tight}">{caption}<tr>{head}</tr>\n' + "\n".join(body) + "</table>", lines

    def _key_values(self) -> Block:
        """Two columns: a label in bold, what it is."""
        rows = self._random.randint(3, 8)
        markup = "".join(
            f"<tr><th>{self._text.label()}</th><td>{self._text.plain(2, 7)}</td></tr>\n" for _ in range(rows)
        )
        return f'<table class="t{self._random.randrange(TABLES)}">{markup}</table>', rows * 1.4

    def _form(self) -> Block:
        rows = self._random.randint(2, 6)
        field = '<div>{}:</div><div class="field">{}</div>\n'
        return '<div class="form">' + "".join(
            field.format(self._text.label(), self._text.plain(1, 5)) for _ in range(rows)
        ) + "</div>", rows * 1.6  # fmt: skip

    def _infobox(self) -> Block:
        random, text = self._random, self._text
        rows = [f'<tr><th colspan="2" class="head">{text.title(1, 3)}</th></tr>']
        most = 15 if self._style.line_characters > 90 else 7  # large letters leave little room beside it
        for _ in range(random.randint(4, most)):
            if random.random() < 0.12:
                rows.append(f'<tr><th colspan="2" class="head">{text.title(1, 3)}</th></tr>')
            value = "<br>".join(text.value() for _ in range(random.choice((1, 1, 1, 1, 2, 3))))
            rows.append(f"<tr><th>{text.label()}</th><td>{value}</td></tr>")
        return '<table class="info">' + "\n".join(rows) + "</table>", len(rows) * 0.45

    def _box(self) -> Block:
        text = self._some(4)
        head = f"<b>{self._text.title(1, 3)}</b> " if self._random.random() < 0.6 else ""
        return f'<div class="box">{head}{text}</div>', self._lines(shown_length(text), 0.93) + 1.5

    def _columns(self) -> Block:
        paragraphs = [self._some(5) for _ in range(self._random.randint(2, 3))]
        lines = sum(self._lines(shown_length(text), 0.95) + 0.5 for text in paragraphs)
        return '<div class="cols">' + "".join(f"<p>{text}</p>" for text in paragraphs) + "</div>", lines

    def _figure(self) -> Block:
        caption = self._text.plain(2, 9)
        return f"<figure><div></div><figcaption>{caption}</figcaption></figure>{self._paragraph()[0]}", 4

    def _code(self) -> Block:
        random = self._random
        lines = [" " * random.choice((0, 0, 2, 4, 8)) + self._text.code(1, 5) for _ in range(random.randint(2, 8))]
        return "<pre>" + "\n".join(lines) + "</pre>", len(lines) + 1

    def _quotation(self) -> Block:
        text = self._some(3)
        return f"<blockquote>{text}</blockquote>", self._lines(shown_length(text), 0.9) + 1

    def _navigation(self) -> str:
        links = " ".join(self._text.link(1, 1) for _ in range(self._random.randint(3, 7)))
        return f'<div class="nav">{links}</div>'

    def _footnotes(self) -> str:
        random, text = self._random, self._text
        notes = [
            f"<li>^ {text.title(1, 2)}, {random.choice(('', '<i>'))}{text.title(2, 5)}</i>, {text.plain(1, 5)}.</li>"
            for _ in range(random.randint(3, 12))
        ]
        columns = " cols" if random.random() < 0.4 else ""
        return f'<h2>{text.title(1, 2)}</h2><ol class="notes{columns}">' + "\n".join(notes) + "</ol>"
