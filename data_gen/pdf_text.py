"""Words and paragraphs of a PDF page's characters, in the order in which the PDF gives them."""

from dataclasses import dataclass, field

Rect = tuple[float, float, float, float]  # x, y, width, height in px of the page
Character = tuple[int, Rect]  # UTF-16 unit or code point, box

HYPHEN = "\x02"  # what pdfium gives for a hyphen that breaks a word at the end of a line
_NOTHING = (0x00, 0xAD, 0xFFFE, 0xFFFF)  # no characters; a soft hyphen shows nothing inside a line
_LINE_GAP = 0.5  # of the line's height: a wider gap below it ends a paragraph
_INDENT = 0.6  # of the line's height: a line that starts this much further right begins one
_SAME_HEIGHT = 1.25  # heights of lines of one paragraph differ by less than this factor


@dataclass
class _Word:
    text: str
    edges: list[float]  # left, top, right, bottom

    def widen(self, x: float, y: float, width: float, height: float) -> None:
        """Take in the box of a further character."""
        if width > 0:
            left, top, right, bottom = self.edges
            self.edges = [min(left, x), min(top, y), max(right, x + width), max(bottom, y + height)]


@dataclass
class _Line:
    words: list[_Word] = field(default_factory=list)
    behind_rest: bool = False  # it begins with the rest of a word of the line before

    def edge(self, index: int) -> float:
        """Left, top (0, 1: smallest) or right, bottom (2, 3: largest) of its words."""
        return (min if index < 2 else max)(word.edges[index] for word in self.words)

    @property
    def height(self) -> float:
        """Above 0."""
        return max(1e-6, self.edge(3) - self.edge(1))


def page_text(characters: list[Character]) -> tuple[list[list[object]], list[Rect]]:
    """([[text, x, y, width, height, block]] in reading order, [box of each block]).

    A word that a hyphen breaks at a line's end is one word, with the box of its first part: so that its text can be
    found. Blocks are paragraphs: lines below each other, of one height, without a gap or an indented start.
    """
    words: list[list[object]] = []
    boxes: list[Rect] = []
    for number, paragraph in enumerate(_paragraphs(_lines(characters))):
        for line in paragraph:
            for word in line.words:
                words.append([word.text, *_rect(word.edges), number])
        edges = [(min if i < 2 else max)(line.edge(i) for line in paragraph) for i in range(4)]
        boxes.append(_rect(edges))
    return words, boxes


def _rect(edges: list[float]) -> Rect:
    left, top, right, bottom = edges
    return left, top, right - left, bottom - top


def _lines(characters: list[Character]) -> list[_Line]:
    lines, line = [], _Line()
    word: _Word | None = None
    goes_on = False  # behind a hyphen: the word's rest stands in the next line, which begins behind it
    for text, (x, y, width, height) in _decoded(characters):
        if text == HYPHEN:
            goes_on = word is not None
            if word is not None:
                word.widen(x, y, width, height)
        elif text.isspace() or not text.isprintable():
            if (text == "\n" or goes_on) and line.words:
                lines.append(line)
                line = _Line(behind_rest=text != "\n")
            word, goes_on = None, False
        elif word is None:
            word = _Word(text, [x, y, x + width, y + height])
            line.words.append(word)
        else:
            word.text += text
            if not goes_on:
                word.widen(x, y, width, height)
    return [*lines, line] if line.words else lines


def _paragraphs(lines: list[_Line]) -> list[list[_Line]]:
    paragraphs: list[list[_Line]] = []
    for line in lines:
        if paragraphs and _continues(paragraphs[-1], line):
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
    return paragraphs


def _continues(paragraph: list[_Line], line: _Line) -> bool:
    """Whether ``line`` belongs to ``paragraph``."""
    last = paragraph[-1]
    unlike = max(last.height, line.height) / min(last.height, line.height)
    gap = line.edge(1) - last.edge(3)
    beside = line.edge(0) > last.edge(2) or line.edge(2) < last.edge(0)
    indented = len(paragraph) > 1 and not line.behind_rest and line.edge(0) - last.edge(0) > _INDENT * line.height
    return unlike < _SAME_HEIGHT and -line.height < gap < _LINE_GAP * line.height and not beside and not indented


def _decoded(characters: list[Character]) -> list[tuple[str, Rect]]:
    """(character, box); surrogate pairs joined, what is no character left out."""
    found: list[tuple[str, Rect]] = []
    high = 0
    for code, box in characters:
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        if code not in _NOTHING and code <= 0x10FFFF:
            found.append((chr(code), box))
    return found
