"""Which of a tile's questions are kept: by kind, difficulty, share without the title, and number."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from tilewright.data_gen.annotator import RawPair
from tilewright.data_gen.grounded.choice import digest_number
from tilewright.data_gen.grounded.settings import GroundedSettings
from tilewright.data_gen.grounded.terms import contains_title

SELECTION_DROPS = (
    "other_kind",
    "over_max_of_kind",
    "not_easy",
    "not_hard",
    "over_title_share",
    "over_title_free_share",
)


def selected(
    pairs: Sequence[RawPair], tile_id: str, title: str, most: int, settings: GroundedSettings
) -> tuple[list[RawPair], Counter[str]]:
    """At most ``most`` pairs, kinds in turn, each kind in the order of digests of tile and query; and the drops.

    Drops: those in SELECTION_DROPS, and ``over_max_pairs``.
    """
    dropped: Counter[str] = Counter()
    by_kind: dict[str, list[RawPair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: digest_number(f"{tile_id}:{pair.query}")):
        reason = _unwanted(pair, title, settings)
        cap = settings.max_per_kind.get(pair.source_type)
        if reason is None and cap is not None and len(by_kind[pair.source_type]) >= cap:
            reason = "over_max_of_kind"
        if reason is None:
            by_kind[pair.source_type].append(pair)
        else:
            dropped[reason] += 1
    turns = zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    found = [pair for turn in turns for pair in turn if pair is not None]
    if settings.title_free_share is not None:
        found, of_title = _with_share(found, tile_id, title, most, settings.title_free_share)
        dropped += of_title
    dropped["over_max_pairs"] = len(found[most:])
    return found[:most], dropped


def is_easy(pair: RawPair, title: str, most_words: int) -> bool:
    """Whether the query names the title, and one infobox pair or short sentence answers."""
    simple = pair.source_type == "infobox" or (
        pair.source_type in ("paragraph", "list") and len(pair.source_span.split()) <= most_words
    )
    return simple and contains_title(pair.query, title)


def is_hard(pair: RawPair, title: str) -> bool:
    """Whether the query doesn't name the title, or only a row and a column together answer."""
    return pair.source_type == "table" or not contains_title(pair.query, title)


def _unwanted(pair: RawPair, title: str, settings: GroundedSettings) -> str | None:
    if pair.source_type not in settings.kinds:
        return "other_kind"
    if settings.difficulty == "easy" and not is_easy(pair, title, settings.easy_words):
        return "not_easy"
    if settings.difficulty == "hard" and not is_hard(pair, title):
        return "not_hard"
    return None


def _with_share(
    pairs: Sequence[RawPair], tile_id: str, title: str, most: int, share: float
) -> tuple[list[RawPair], Counter[str]]:
    """The first pairs of both sorts, as many as ``share`` and ``most`` allow; fractions are rounded by digest."""
    free = [not contains_title(pair.query, title) for pair in pairs]
    number = {True: sum(free), False: len(free) - sum(free)}
    shares = {True: share, False: 1 - share}
    total = min([float(most)] + [number[sort] / shares[sort] for sort in shares if shares[sort] > 0])
    draw = digest_number(f"{tile_id}:title_free_share") / 2**64
    room = {sort: min(number[sort], int(total * shares[sort] + draw + 1e-9)) for sort in shares}
    kept, dropped = [], Counter[str]()
    for pair, sort in zip(pairs, free, strict=True):
        if room[sort] > 0:
            room[sort] -= 1
            kept.append(pair)
        else:
            dropped["over_title_free_share" if sort else "over_title_share"] += 1
    return kept, dropped
