"""Numbers and units of MediaWiki: {{convert}}, {{val}}, {{chem}}, {{frac}}, {{coord}}."""

import re


def convert(positional: list[str], named: dict[str, str]) -> str:
    """{{convert|10|km|mi}}, {{convert|3|to|5|km}}, {{convert|5|ft|11|in}}: the values as given, with readable units."""
    joiners = {"to": "to", "-": "–", "–": "–", "and": "and", "or": "or", "x": "×", "by": "×", "±": "±", "to(-)": "to"}
    words: list[str] = []
    numbers_expected = True
    for index, word in enumerate(positional):
        if re.fullmatch(r"[-+−]?[\d.,/eE⁄]+|\d+[+ ]\d+/\d+", word):
            if not numbers_expected and not _followed_by_unit(positional, index):
                break
            words.append(word)
            numbers_expected = True
        elif word in joiners:
            words.append(joiners[word])
        elif words and numbers_expected:
            words.append(_UNITS.get(word, word))
            numbers_expected = False
            if not _followed_by_unit(positional, index + 1):
                break
        else:
            break
    return "&nbsp;".join(words).replace("&nbsp;–&nbsp;", "–")


def _followed_by_unit(positional: list[str], index: int) -> bool:
    """Whether a further value with its unit stands at ``index``: the 11 and in of 5 ft 11 in."""
    pair = positional[index : index + 2]
    return len(pair) == 2 and pair[0].isdigit() and pair[1] in ("in", "oz", "lb", "ft", "yd", "chain")


_UNITS = {
    "m2": "m²", "km2": "km²", "sqmi": "sq mi", "sqft": "sq ft", "sqkm": "km²", "m3": "m³", "km3": "km³", "C": "°C",
    "F": "°F", "C-change": "°C", "F-change": "°F", "cuft": "cu ft", "usgal": "US gal",
    "acre": "acres", "/km2": "/km²", "PD/km2": "/km²", "PD/sqmi": "/sq mi", "cm2": "cm²", "cm3": "cm³", "mile": "miles",
    "foot": "feet", "inch": "inches", "nmi": "nautical miles", "ST": "short tons", "LT": "long tons", "t": "tonnes",
    "e6acre": "million acres", "e6ha": "million hectares", "e3km2": "thousand km²", "metre": "metres",
}  # fmt: skip


def chemistry(positional: list[str], named: dict[str, str]) -> str:
    """{{chem|H|2|O}}: numbers are subscripts, charges superscripts."""
    parts = []
    for part in positional:
        charge = re.fullmatch(r"\d*[+−-]", part)
        parts.append(f"<sup>{part}</sup>" if charge else f"<sub>{part}</sub>" if part.isdigit() else part)
    return "".join(parts)


def value(positional: list[str], named: dict[str, str]) -> str:
    number = positional[0] if positional else ""
    if len(positional) > 1 and positional[1]:
        number += f"±{positional[1]}" if not positional[1].startswith("(") else positional[1]
    power = f"×10<sup>{named['e']}</sup>" if named.get("e") else ""
    unit = named.get("u") or named.get("ul") or ""
    return number + power + (f"&nbsp;{unit}" if unit else "")


def fraction(positional: list[str], named: dict[str, str]) -> str:
    if len(positional) == 3:
        return f"{positional[0]} {positional[1]}⁄{positional[2]}"
    return "⁄".join(positional if len(positional) > 1 else ["1", *positional])


def coordinates(positional: list[str], named: dict[str, str]) -> str:
    """{{coord|12|30|N|69|58|W}} as 12°30′N 69°58′W; nothing if they are shown beside the page's title only."""
    if not {"inline", "i", "it", "ti"} & set(named.get("display", "inline").replace(" ", "").split(",")):
        return ""
    parts: list[str] = []
    numbers: list[str] = []
    for word in positional:
        if word in ("N", "S", "E", "W"):
            parts.append("".join(map("".join, zip(numbers, "°′″", strict=False))) + word)
            numbers = []
        elif re.fullmatch(r"[-−]?\d+(?:\.\d+)?", word):
            numbers.append(word)
        else:
            break
    return " ".join(parts) or ", ".join(f"{number}°" for number in numbers[:2])
