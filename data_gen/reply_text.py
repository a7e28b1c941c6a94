"""What a model's reply says once its wrapping is gone: thoughts, special tokens, fences, markdown, odd characters."""

import re
import unicodedata
from collections.abc import Iterator

MAX_CHARACTERS = 200_000  # of a reply that is read at all; a verdict is a line, 20 pairs are 10,000 characters

_THOUGHT = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(rf"<(?P<shut>/?)(?:{_THOUGHT})\s*(?P<empty>/?)>|[\[◁](?P<shut2>/?)think[\]▷]", re.IGNORECASE)
_FINAL = "<|channel|>final<|message|>"  # where gpt-oss's reply begins; what stands in other channels is thought
_SPECIAL = r"(?:<\|[A-Za-z_]{2,30}\|>|<end_of_turn>|<eos>|</s>|<｜[^<>｜]{2,30}｜>)"
_SPECIAL_END, _SPECIAL_START = re.compile(rf"{_SPECIAL}\Z"), re.compile(_SPECIAL)
_LANGUAGES = "jsonc?|json5|jsonl|text|txt|plain|plaintext|markdown|md|ya?ml|xml|html|csv|python|output"  # not WRONG
_FENCE = re.compile(rf"^[ \t>]*(?:`{{3,}}|~{{3,}})[ \t]*(?:(?:{_LANGUAGES})[ \t]*)?$", re.MULTILINE | re.IGNORECASE)

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_ALIKE = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "‐": "-", "‑": "-"}
)
_DASHES = str.maketrans({"–": "-", "−": "-", "‒": "-", "—": " - ", "―": " - ", "→": "->", "…": "..."})

_MARKER = re.compile(r"^(?:>\s*|#{1,6}\s+|[-*+•]\s+|[0-9]{1,2}[.)]\s+)+(?=\S)")
_BULLET = re.compile(r"^(?:>\s*|#{1,6}\s+|[-*+•]\s+)+(?=\S)")
_RULER = re.compile(r"[-=*_]{3,}")
_EDGE_UNDERSCORES = re.compile(r"(?<![A-Za-z0-9_])_{1,3}(?=\S)|(?<=\S)_{1,3}(?![A-Za-z0-9_])")
_BOXED = re.compile(r"\\(?:boxed|text|textbf|mathrm)\s*\{([^{}]*)\}")
_TAGS = re.compile(r"</?(?:b|strong|i|em|u|span|p|div|br|code|pre|h[1-6])\s*/?>", re.IGNORECASE)
_WRAPS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "`": "`"}


def visible_text(reply: str) -> str | None:
    """The part of ``reply`` that answers: without thoughts and special tokens.

    A closing tag that was never opened ends a thought that the chat template opened. None if a thought has no end (the
    reply was cut off), if tags leave it open what was thought, or if the reply is absurdly long.
    """
    if len(reply) > MAX_CHARACTERS:
        return None
    if "<|channel|>" in reply:
        before, final, reply = reply.rpartition(_FINAL)
        if not final or _FINAL in before:
            return None
    text = without_thoughts(reply)
    return None if text is None else _without_special_tokens(text.strip())


def _without_special_tokens(text: str) -> str:
    """``text`` without the tokens that a server left at its ends, such as ``<|im_end|>``."""
    for _ in range(8):
        if begins := _SPECIAL_START.match(text):
            text = text[begins.end() :].strip()
        elif ends := _SPECIAL_END.search(text):
            text = text[: ends.start()].strip()
        else:
            break
    return text


def without_thoughts(reply: str) -> str | None:
    """``reply`` without ``<think>`` blocks (and their kin); None where ``visible_text`` says so."""
    kept: list[str] = []
    depth, start = 0, 0
    previous: tuple[bool, int] | None = None  # whether the tag before shuts, and where it ends
    for shuts, begin, end in _thought_tags(reply):
        doubled = previous is not None and previous[0] == shuts and not reply[previous[1] : begin].strip()
        if shuts and not depth and not doubled:
            if previous is not None:
                return None
            kept.clear()
        elif shuts and depth:
            depth -= 1
        elif not shuts and not doubled:
            if not depth:
                kept.append(reply[start:begin])
            depth += 1
        start, previous = end, (shuts, end)
    return None if depth else "\n".join([*kept, reply[start:]])


def _thought_tags(reply: str) -> Iterator[tuple[bool, int, int]]:
    """(whether it shuts, begin, end) of every tag around a thought; ``<think/>`` opens and shuts."""
    for tag in _TAG.finditer(reply):
        if tag["empty"]:
            yield False, tag.start(), tag.end()
            yield True, tag.end(), tag.end()
        else:
            yield bool(tag["shut"] or tag["shut2"]), tag.start(), tag.end()


def without_fences(text: str) -> str:
    """``text`` without the lines that open or shut a code block."""
    return _FENCE.sub("", text)


def plain(text: str) -> str:
    """``text`` in plain characters: no invisible ones, every blank a space or line break, full-width letters narrow."""
    text = text.translate(_FULL_WIDTH).translate(_ALIKE).translate(_DASHES)
    if text.isascii():
        return text
    return "".join(" " if unicodedata.category(c) == "Zs" else c for c in text if unicodedata.category(c) != "Cf")


def plain_lines(text: str) -> list[str]:
    """The lines of ``text`` that aren't blank, without markdown: headings, bullets, quotes, emphasis, code."""
    lines = [plain_line(line) for line in plain(without_fences(text)).splitlines()]
    return [line for line in lines if line and not _RULER.fullmatch(line)]


def plain_line(line: str, *, numbers: bool = False) -> str:
    """One line without its markdown, its blanks collapsed; with its number in a list if ``numbers``."""
    line = _TAGS.sub("", _BOXED.sub(r"\1", _BOXED.sub(r"\1", line.replace("\\_", "_"))))
    marker = _BULLET if numbers else _MARKER
    line = _without_emphasis(marker.sub("", line.strip()))
    return unwrapped(" ".join(marker.sub("", line.strip()).split()))


def _without_emphasis(line: str) -> str:
    for mark in ("***", "**", "*", "```", "``", "`", "$$", "$"):
        if mark in line and line.count(mark) % 2 == 0:
            line = line.replace(mark, "")
    edges = _EDGE_UNDERSCORES.findall(line)
    return line if len(edges) % 2 else _EDGE_UNDERSCORES.sub("", line)


def unwrapped(text: str) -> str:
    """``text`` without the quotes and brackets that enclose the whole of it."""
    while len(text) > 1 and _WRAPS.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1]):
        text = text[1:-1].strip()
    return text
