"""What a ranking drawn at random would score: exact expectations, one question at a time."""


def expected_success(pool: int, relevant: int, k: int) -> float:
    """P(at least one of ``relevant`` items is among the first ``k`` of a random order of ``pool`` items).

    Hypergeometric: 1 - C(pool - relevant, k) / C(pool, k). With one relevant item: min(k, pool) / pool.
    """
    _check(pool, relevant)
    missed = 1.0
    for drawn in range(min(k, pool)):
        missed *= max(pool - relevant - drawn, 0) / (pool - drawn)
    return 1.0 - missed


def expected_reciprocal_rank(pool: int, relevant: int, depth: int) -> float:
    """Expectation of 1 / rank of the first relevant item, 0 beyond ``depth``, in a random order."""
    _check(pool, relevant)
    missed, expected = 1.0, 0.0
    for rank in range(1, min(depth, pool) + 1):
        left = pool - rank + 1
        expected += missed * relevant / left / rank
        missed *= (left - relevant) / left
        if missed <= 0:
            break
    return expected


def _check(pool: int, relevant: int) -> None:
    if pool < 1 or not 0 <= relevant <= pool:
        raise ValueError(f"wanted pool >= 1 and 0 <= relevant <= pool, found pool {pool}, relevant {relevant}")
