"""HTML out of Python values: everything is escaped unless it is ``Markup`` already."""

from collections.abc import Iterable, Mapping, Sequence

from tilewright.data_gen import html_page


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """``value`` as HTML text; Markup stays as it is. Control characters, which HTML forbids, become U+FFFD."""
    if isinstance(value, Markup):
        return value
    return Markup(html_page.text(str(value)))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """The parts, each escaped, one after the other."""
    return Markup(between.join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """``<name attributes>children</name>``. ``class_`` gives class, ``aria_label`` aria-label; None leaves one out."""
    return Markup(f"<{name}{_attributes(attributes)}>{join(children)}</{name}>")


def void(name: str, /, **attributes: object) -> Markup:
    """An element without content or end tag, such as ``img``."""
    return Markup(f"<{name}{_attributes(attributes)}>")


def _attributes(attributes: Mapping[str, object]) -> str:
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    return "".join(f' {key}="{text(value)}"' for key, value in given.items())


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, numbers_from: int = 1) -> Markup:
    """A table whose first cell of each row is its header; columns from ``numbers_from`` on are aligned as numbers."""

    def cell(name: str, value: object, column: int, **more: str) -> Markup:
        return tag(name, value, class_="number" if column >= numbers_from else None, **more)

    heads = [cell("th", value, column, scope="col") for column, value in enumerate(head)]
    body = [
        tag(
            "tr",
            *[
                cell("td", value, column) if column else cell("th", value, column, scope="row")
                for column, value in enumerate(row)
            ],
        )
        for row in rows
    ]
    whole = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *heads), Markup("\n")), tag("tbody", *_lines(body))
    )
    return tag("div", whole, class_="scroll")


def _lines(parts: Iterable[Markup]) -> list[Markup]:
    return [Markup(f"{part}\n") for part in parts]
