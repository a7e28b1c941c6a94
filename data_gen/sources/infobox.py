"""Infobox templates as a real ``<table class="infobox">`` with readable labels; lists and dates stay as they are."""

import re
from html import escape
from typing import Any

from tilewright.data_gen.sources.templates import Renderer, normal_name

_INFOBOX = re.compile(r"(?:infobox|geobox|chembox|drugbox)\b.*|(?:automatic |auto|species|sub|)taxobox")
_HIDDEN = re.compile(
    r".*(image|img|photo|picture|logo|insignia|_alt$|^alt$|caption|_map$|^map|mapsize|_size$|size$|width|style|colou?r|_ref$|ref$|refs$"
    r"|footnote|signature|icon|align|latd|latm|lats|latns|longd|longm|longs|longew|coordinates|latitude|longitude|sound|audio|^flag$|flag_type"
    r"|symbol_type|_type_article|embed|child|module|bodyclass|nocat|demo|box_width|^common_name$|iso_?\d*code|_change$|isocode"
    r"|filename|_sortname|_link$|^width|wikidata|^color|range_map|commons|^website_title|cctld_ref|collapsed|_coa$|crest|display).*"
)
_TITLE_KEYS = ("name", "conventional_long_name", "official_name", "title", "taxon", "conflict")
_MERGED = {  # one row of several parameters, as Wikipedia shows them
    "Born": ("birth_name", "birth_date", "birth_place"),
    "Died": ("death_date", "death_place"),
    "Baptised": ("baptised", "baptism_date"),
}
_LABELS = {
    "spouse": "Spouse(s)", "spouses": "Spouse(s)", "children": "Children", "alma_mater": "Alma mater", "cctld": "Internet TLD",
    "doctoral_advisor": "Doctoral advisor", "known_for": "Known for", "area_km2": "Area (km²)", "area_sq_mi": "Area (sq mi)",
    "area_total_km2": "Total area (km²)", "area_total_sq_mi": "Total area (sq mi)", "percent_water": "Water (%)",
    "population_density_km2": "Population density (per km²)", "population_density_sq_mi": "Population density (per sq mi)",
    "gdp_ppp": "GDP (PPP)", "gdp_nominal": "GDP (nominal)", "gini": "Gini", "hdi": "HDI", "cospar_id": "COSPAR ID",
    "gdp_ppp_per_capita": "GDP (PPP) per capita", "gdp_nominal_per_capita": "GDP (nominal) per capita",
    "drives_on": "Drives on the", "utc_offset": "UTC offset", "isbn": "ISBN", "oclc": "OCLC", "crosses": "Crosses",
    "regnum": "Kingdom", "phylum": "Phylum", "classis": "Class", "ordo": "Order", "familia": "Family", "subfamilia": "Subfamily",
    "genus": "Genus", "species": "Species", "binomial": "Binomial name", "icd9": "ICD-9", "icd10": "ICD-10", "omim": "OMIM",
}  # fmt: skip
_PAIRS = (  # parameter with the label -> parameter with the value
    (re.compile(r"(.*)_title(\d*)"), ("{}_name{}", "{}{}")),
    (re.compile(r"(.*)_event(\d*)"), ("{}_date{}",)),
    (re.compile(r"(.*)label(\d*)"), ("{}data{}", "{}info{}")),
    (re.compile(r"(blank\d*)_name(.*)"), ("{}_info{}",)),
    (re.compile(r"(.*)_type(\d*)"), ("{}{}",)),
)
_YEAR_SUFFIXES = ("_year", "_as_of", "_date")
_PICTURE_VALUE = re.compile(r"\S[^<>|\n]*\.(?:jpe?g|png|svg|gif|ogg|tiff?|webm)", re.IGNORECASE)


def is_infobox(name: str) -> bool:
    """Whether a template of this (normal) name is an infobox."""
    return _INFOBOX.fullmatch(name) is not None


def to_table(node: Any, name: str, renderer: Renderer) -> str:
    """The infobox as HTML, "" if no parameter of it has anything to show. Infoboxes inside a value are rows of it."""
    values = _values(node, renderer)
    title = next((values.pop(key) for key in _TITLE_KEYS if values.get(key)), "") or escape(renderer.title, quote=False)
    rows = _rows(values)
    if not rows:
        return ""
    lines = [f"<tr><th>{label}</th><td>{_block(value)}</td></tr>" for label, value in rows]
    head = f'<tr><th colspan="2" class="infobox-title">{_one_line(title)}</th></tr>'
    return "\n".join(["", '<table class="infobox">', head, *lines, "</table>", ""])


def _values(node: Any, renderer: Renderer) -> dict[str, str]:
    """{parameter: rendered value} of what is to be shown, in the order of the wikitext."""
    values: dict[str, str] = {}
    for param in node.params:
        key = normal_name(str(param.name)).replace(" ", "_").replace("-", "_")
        if key.isdigit() or _HIDDEN.fullmatch(key):
            continue
        value = renderer.render(param.value).strip()
        if value and value not in ("-", "–", "N/A") and not _PICTURE_VALUE.fullmatch(value):
            values[key] = value
    return values


def _rows(values: dict[str, str]) -> list[tuple[str, str]]:
    """(label, value) in order; used-up parameters are taken out of ``values``."""
    rows: list[tuple[str, str]] = []
    while values:
        key = next(iter(values))
        row = _merged(key, values) or _paired(key, values)
        if row is None:
            value = values.pop(key)
            year = next((values.pop(key + suffix) for suffix in _YEAR_SUFFIXES if key + suffix in values), "")
            row = (readable_label(key), f"{value} ({year})" if year else value)
        if row[1]:
            rows.append(row)
    return rows


def _merged(key: str, values: dict[str, str]) -> tuple[str, str] | None:
    for label, keys in _MERGED.items():
        if key in keys:
            return label, "<br>".join(values.pop(part) for part in keys if part in values)
    return None


def _paired(key: str, values: dict[str, str]) -> tuple[str, str] | None:
    """A row whose label stands in one parameter and whose value in another; an unpaired label shows nothing."""
    for pattern, targets in _PAIRS:
        match = pattern.fullmatch(key)
        target = (
            next((t.format(*match.groups()) for t in targets if t.format(*match.groups()) in values), None)
            if match
            else None
        )
        if target is not None and target != key:
            label = _one_line(values.pop(key))
            return label[:1].upper() + label[1:], values.pop(target)
    return None


def readable_label(key: str) -> str:
    """``birth_date`` -> "Birth date"; a trailing number goes, well-known abbreviations stay capital."""
    if key in _LABELS:
        return _LABELS[key]
    words = re.sub(r"(?<=[a-z])_?\d+$", "", key).replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _block(value: str) -> str:
    """A cell's wikitext; lists and nested tables need lines of their own."""
    return f"\n{value}\n" if "\n" in value or value[:1] in "*#:;" else value
