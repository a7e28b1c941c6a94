"""What each mode of mining makes of a query's candidates before any judge is asked."""

from collections.abc import Callable, Collection

from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tiles import page_of
from tilewright.mining.candidates import Candidates
from tilewright.mining.mining_config import Config
from tilewright.mining.walk import ABOVE_MARGIN, DUPLICATE, KNOWN, SAME_PAGE, UNJUDGED, Route


def route_of(
    pair: QAPair,
    candidates: Candidates,
    config: Config,
    digest: Callable[[str], str],
    known: Collection[str] = (),
) -> Route:
    """The candidates in the order of the walk, and which of them need a judge.

    ``digest``: tile_id -> digest of its pixels; ``known``: known positives of an earlier round. The margin's limit is
    of the positive's score, which ``candidates`` then has, also where the positive has no rank.
    """
    ranked = list(candidates.tile_ids)
    scores = dict(zip(ranked, candidates.scores, strict=True))
    limit = None
    if config.margin is not None:
        assert candidates.positive_score is not None, pair.query_id
        limit = config.margin.limit(candidates.positive_score)

    def ready(tile_id: str) -> str | None:
        if digest(tile_id) == digest(pair.tile_id):
            return DUPLICATE
        if tile_id in known:
            return KNOWN
        if config.same_page == "forbid" and page_of(tile_id) == pair.page_id:
            return SAME_PAGE
        if limit is not None and scores[tile_id] > limit:
            return ABOVE_MARGIN
        return None if config.mode == "judged" else UNJUDGED

    window = frozenset(ranked[config.first_rank - 1 : config.top_k])
    if config.same_page == "prefer":
        ranked.sort(key=lambda tile_id: page_of(tile_id) != pair.page_id)  # stable: each half stays in rank order
    return Route(ranked, window, ready, config.negatives, config.per_page)
