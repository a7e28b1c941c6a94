"""Date templates of MediaWiki: {{birth date|1912|6|23}} and its kin, in words."""

import re
from collections.abc import Callable

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def date_in_words(parts: list[str], day_first: bool) -> str:
    """["1912", "6", "23"] as "June 23, 1912", or "23 June 1912"; shorter lists as month and year, or year."""
    year, month, day = [*parts, "", "", ""][:3]
    if not month.isdigit() or not 1 <= int(month) <= 12:
        return " ".join(part for part in parts[:3] if part)
    name = MONTHS[int(month) - 1]
    if not day.isdigit():
        return f"{name} {year}"
    return f"{int(day)} {name} {year}" if day_first else f"{name} {int(day)}, {year}"


def _date(positional: list[str], named: dict[str, str]) -> str:
    return date_in_words(positional[:3], _day_first(named))


def _day_first(named: dict[str, str]) -> bool:
    return named.get("df", "").lower() in ("yes", "y", "true", "1")


def _death_date_and_age(positional: list[str], named: dict[str, str]) -> str:
    """Death and birth dates give the age, which doesn't depend on today."""
    text = date_in_words(positional[:3], _day_first(named))
    numbers = [int(part) for part in positional[:6] if part.isdigit()]
    if len(numbers) != 6:
        return text
    age = numbers[0] - numbers[3] - (tuple(numbers[1:3]) < tuple(numbers[4:6]))
    return f"{text} (aged {age})"


def _start_date_text(positional: list[str], named: dict[str, str]) -> str:
    """{{start-date|July 16, 1969, 13:32:00|timezone=yes}}."""
    return positional[0] if positional else ""


def _years(positional: list[str], named: dict[str, str]) -> str:
    numbers = [part for part in positional if re.fullmatch(r"\d{3,4}", part)]
    return numbers[0] if numbers else " ".join(positional[:1])


def _sort_date(positional: list[str], named: dict[str, str]) -> str:
    """{{dts|1969|7|16}} or {{dts|July 16, 1969}}."""
    if len(positional) == 1:
        return positional[0]
    parts = [str(MONTHS.index(part) + 1) if part in MONTHS else part for part in positional[:3]]
    if len(parts) == 3 and len(parts[2]) == 4:  # day or month first
        parts = [parts[2], parts[1], parts[0]] if positional[1] in MONTHS else [parts[2], parts[0], parts[1]]
    return date_in_words(parts, _day_first(named))


DATES: dict[str, Callable[[list[str], dict[str, str]], str]] = {
    **dict.fromkeys(("birth date", "birth date and age", "bda", "start date", "start date and age", "end date"), _date),
    **dict.fromkeys(("death date", "film date", "release date", "date", "bd", "launch date", "oldstyledate"), _date),
    **dict.fromkeys(("death date and age", "dda"), _death_date_and_age),
    **dict.fromkeys(("start-date", "end-date", "birth-date", "death-date", "birth-date and age"), _start_date_text),
    **dict.fromkeys(("birth year and age", "death year and age"), _years),
    "dts": _sort_date,
}
