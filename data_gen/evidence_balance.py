"""Which kind of evidence each tile is asked about, so that a data set's kinds come out as wanted."""

from collections import Counter
from collections.abc import Iterable, Mapping

from tilewright.configs.digests import digest_text
from tilewright.data_gen.records import Tile

KINDS = ("paragraph", "infobox", "table", "list", "image")
MIN_EVIDENCE_PX = 20_000  # of a kind: about two lines of a paragraph at 875 px
MIN_PICTURE_SHARE = 0.2  # of a tile that no text element covers: room for a picture


def check_kind_shares(shares: Mapping[str, float]) -> None:
    """Raise ValueError unless ``shares`` is empty or gives KINDS weights >= 0, one of them above 0."""
    unknown = sorted(set(shares) - set(KINDS))
    if unknown:
        raise ValueError(f"kind_shares: wanted kinds of {list(KINDS)}, found {unknown}")
    if shares and (min(shares.values()) < 0 or sum(shares.values()) <= 0):
        raise ValueError(f"kind_shares: wanted numbers >= 0, one of them above 0, found {dict(shares)}")


def kinds_on(tile: Tile) -> tuple[str, ...]:
    """The kinds that ``tile`` has enough of, by the area its elements cover; ``image`` by the area that none does."""
    shown = [kind for kind in KINDS if tile.evidence_px.get(kind, 0) >= MIN_EVIDENCE_PX]
    bare = 1 - sum(tile.evidence_px.values()) / (tile.width_px * tile.height_px)
    return (*shown, "image") if bare >= MIN_PICTURE_SHARE else tuple(shown)


def assign_kinds(tiles: Iterable[Tile], shares: Mapping[str, float], seed: int) -> dict[str, str]:
    """{tile_id: kind to ask about}, no entry for a tile that has none of the wanted kinds; {} without ``shares``.

    In an order drawn by ``seed``, each tile gets the one of its own kinds that lags behind its share most. A function
    of all ``tiles``: every shard of a corpus computes the same. Raises ValueError as ``check_kind_shares``.
    """
    check_kind_shares(shares)
    total = sum(shares.values())
    wanted = {kind: shares[kind] / total for kind in KINDS if shares.get(kind, 0) > 0}
    given: Counter[str] = Counter()
    assigned = {}
    for tile in sorted(tiles, key=lambda tile: digest_text(f"{seed}:{tile.tile_id}")) if wanted else ():
        own = [kind for kind in kinds_on(tile) if kind in wanted]
        if own:
            kind = max(own, key=lambda kind: wanted[kind] * (given.total() + 1) - given[kind])
            given[kind] += 1
            assigned[tile.tile_id] = kind
    return assigned
