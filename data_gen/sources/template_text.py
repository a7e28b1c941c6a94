"""What MediaWiki templates of running text, lists and sources show, as wikitext with HTML where that is simpler."""

import re
from collections.abc import Callable

from tilewright.data_gen.sources.template_dates import MONTHS

Handler = Callable[[list[str], dict[str, str]], str]


def first(positional: list[str], named: dict[str, str]) -> str:
    return positional[0] if positional else ""


def second(positional: list[str], named: dict[str, str]) -> str:
    return positional[1] if len(positional) > 1 else first(positional, named)


def last(positional: list[str], named: dict[str, str]) -> str:
    return positional[-1] if positional else ""


def language_of(name: str) -> Handler:
    languages = {"ar": "Arabic", "az": "Azerbaijani", "ca": "Catalan", "de": "German", "el": "Greek", "es": "Spanish"}
    languages |= {"fa": "Persian", "fr": "French", "grc": "Ancient Greek", "he": "Hebrew", "it": "Italian"}
    languages |= {"la": "Latin", "pt": "Portuguese", "ru": "Russian", "rus": "Russian", "sq": "Albanian"}
    language = languages.get(name.removeprefix("lang-").partition("-")[0])

    def handler(positional: list[str], named: dict[str, str]) -> str:
        text = first(positional, named)
        latin = not any(char.isalpha() and char > "\u024f" for char in text)
        text = f"''{text}''" if latin and "''" not in text else text
        return f"{language}: {text}" if language else text

    return handler


def item_list(positional: list[str], named: dict[str, str]) -> str:
    return html_list([item for item in positional if item])


def plain_list(positional: list[str], named: dict[str, str]) -> str:
    """{{plainlist|\\n* a\\n* b}}: its argument is itself a list."""
    text = positional[0] if positional else ""
    items = [line.lstrip("*#: ").strip() for line in text.split("\n")]
    return html_list([item for item in items if item])


def html_list(items: list[str]) -> str:
    """A list without bullets; a single item stays text."""
    if len(items) < 2:
        return items[0] if items else ""
    return '<ul class="plainlist">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def dotted(positional: list[str], named: dict[str, str]) -> str:
    """{{hlist}}, {{flatlist}}: items in one line."""
    items = [line.lstrip("*").strip() for value in positional for line in value.split("\n")]
    return " · ".join(item for item in items if item)


def nihongo(positional: list[str], named: dict[str, str]) -> str:
    english, kanji, romaji = [*positional, "", "", ""][:3]
    inner = ", ".join(part for part in (kanji, f"''{romaji}''" if romaji else "") if part)
    return f"{english} ({inner})" if english and inner else english or inner


def quote(positional: list[str], named: dict[str, str]) -> str:
    text = first(positional, named) or named.get("text", "") or named.get("quote", "")
    source = (positional[1] if len(positional) > 1 else "") or named.get("author", "") or named.get("sign", "")
    return f"\n<blockquote>\n{text}\n{f'{chr(10)}— {source}{chr(10)}' if source else ''}</blockquote>\n" if text else ""


def as_of(positional: list[str], named: dict[str, str]) -> str:
    year, month = [*positional, "", ""][:2]
    month = MONTHS[int(month) - 1] if month.isdigit() and 1 <= int(month) <= 12 else month
    lower = "as of" if named.get("lc") else "As of"
    return named.get("alt") or " ".join(part for part in (lower, month, year) if part)


def hatnote(prefix: str) -> Handler:
    def handler(positional: list[str], named: dict[str, str]) -> str:
        titles = [title.rpartition("|")[2] for title in positional if title]
        return f"\n: ''{prefix}: {', '.join(titles)}''\n" if titles else ""

    return handler


def ship(prefix: str) -> Handler:
    return lambda positional, named: f"{prefix} ''{positional[0]}''" if any(positional) else prefix


def marriage(positional: list[str], named: dict[str, str]) -> str:
    spouse, start, end = [*positional, "", "", ""][:3]
    years = "–".join(part for part in (start, end) if part)
    return f"{spouse} ({years})" if years else spouse


def citation(positional: list[str], named: dict[str, str]) -> str:
    """A source in a reading list: author (year). Title. Publisher."""
    author = named.get("author") or ", ".join(
        part for part in (named.get("last") or named.get("last1"), named.get("first") or named.get("first1")) if part
    )
    date = named.get("year") or named.get("date")
    title = named.get("title", "")
    head = f"{author} ({date})" if author and date else author or (f"({date})" if date else "")
    place = named.get("publisher") or named.get("journal") or named.get("work") or named.get("newspaper")
    return ". ".join(
        part for part in (head, title if not title or "''" in title else f"''{title}''", place) if part
    ) + ("." if title else "")


def link(positional: list[str], named: dict[str, str]) -> str:
    address = first(positional, named) or named.get("url", "")
    return positional[1] if len(positional) > 1 else re.sub(r"^https?://(www\.)?|/$", "", address)


def populations(positional: list[str], named: dict[str, str]) -> str:
    """{{historical populations|1900|12,000|1910|...}}, {{us census population|1900= 12000|...}} as a table."""
    pairs = list(zip(positional[::2], positional[1::2], strict=False))
    pairs += [(key, value) for key, value in named.items() if re.fullmatch(r"\d{4}", key)]
    rows = [f"<tr><td>{year}</td><td>{people}</td></tr>" for year, people in pairs if year[:4].isdigit() and people]
    caption = re.sub(r"<[^>]+>", "", named.get("title", "")) or "Historical population"
    head = f"<caption>{caption}</caption>\n<tr><th>Year</th><th>Population</th></tr>\n"
    return '\n<table class="wikitable">\n' + head + "\n".join(rows) + "\n</table>\n" if rows else ""
