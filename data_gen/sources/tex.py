"""Old TeX that pandoc's MathML writer doesn't read, in the commands that it does."""

import re

_RENAMED = {r"\thicksim": r"\sim", r"\displaystyle": "", r"\Big": "", r"\big": ""}
_ROMAN = re.compile(r"\{\s*\\rm\s+([^{}]*)\}")


def readable_tex(tex: str) -> str:
    r"""``{a \over b}`` as ``\frac{a}{b}``, ``{\rm d}`` as ``\mathrm{d}``; sizes go. What is fine already stays."""
    for name, other in _RENAMED.items():
        tex = re.sub(re.escape(name) + r"(?![A-Za-z])", lambda match, other=other: other, tex)  # type: ignore[misc]
    tex = _ROMAN.sub(lambda match: rf"\mathrm{{{match[1]}}}", tex)
    tex = re.sub(r"^\s*\\rm\s+(.*)$", lambda match: rf"\mathrm{{{match[1]}}}", tex, flags=re.DOTALL)
    while (place := tex.find(r"\over ")) >= 0 or (place := tex.find(r"\over{")) >= 0:
        start, end = _group_start(tex, place), _group_end(tex, place)
        if start < 0 or end < 0:
            return tex
        tex = rf"{tex[:start]}{{\frac{{{tex[start + 1 : place]}}}{{{tex[place + 5 : end]}}}}}{tex[end + 1 :]}"
    return tex


def _group_start(tex: str, place: int) -> int:
    """Index of the "{" of the group that holds ``place``, -1 if there is none."""
    depth = 0
    for index in range(place - 1, -1, -1):
        depth += {"}": 1, "{": -1}.get(tex[index], 0)
        if depth < 0:
            return index
    return -1


def _group_end(tex: str, place: int) -> int:
    """Index of the "}" of the group that holds ``place``, -1 if there is none."""
    depth = 0
    for index in range(place, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[index], 0)
        if depth < 0:
            return index
    return -1
