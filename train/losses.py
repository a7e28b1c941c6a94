"""The contrastive loss of the embedder: InfoNCE with candidates that don't count masked out, in fp32."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Stats = dict[str, Tensor]
"""Figures of one batch, 0-d and detached: positive_similarity, negative_similarity, margin, accuracy,
valid_negatives, temperature."""


def info_nce(
    queries: Tensor,
    tiles: Tensor,
    positive: Tensor,
    ignore: Tensor,
    temperature: float | Tensor,
    *,
    margin: float | None = None,
    symmetric: bool = False,
    matryoshka: Sequence[int] = (),
) -> tuple[Tensor, Stats]:
    """Mean cross-entropy of each query's positive tile against all tiles of the global batch, minus ignored ones.

    ``queries`` [Q, D] and ``tiles`` [P, D] have unit length; ``positive`` [Q] indexes tiles; ``ignore`` [Q, P] (bool)
    marks for each query what is no negative: absent negatives, copies of its positive, its known positives. The
    positive itself is never ignored, even if marked. ``temperature`` is a number or a 0-d tensor (learnable).

    ``positive`` [Q, R] names further positives after the first (-1: none). A query's loss is then the mean over its
    positives of the cross-entropy of each against the negatives, the query's other positives left out: positives don't
    compete (the sum outside the logarithm, Khosla et al. 2020, SupCon, there with the others in the denominator).
    Margin, symmetric and statistics are of the first.

    margin: also ignore tiles that score above s(q, p) + margin (cosine, detached): likely unlabelled positives.
    symmetric: average with the tile -> query loss of the positives (hard negatives have no query, so no such term);
        ``queries`` must then hold the global batch's queries. Other queries for which that tile is a positive or
        ignored are no negatives of it.
    matryoshka: sum the loss over these leading dimensions, each normalised again; statistics are of the largest.

    Computed in fp32 with autocast off (float64 stays). Raises ValueError for wrong shapes, types or options.
    Source: van den Oord et al. 2018 (InfoNCE); Kusupati et al. 2022 (Matryoshka sum).
    """
    own = positive[:, 0] if positive.dim() == 2 else positive
    _check(queries, tiles, own, ignore, temperature, matryoshka)
    extra = positive[:, 1:] if positive.dim() == 2 else None  # [Q, R - 1]
    _check_extra(extra, own, len(tiles))
    with torch.autocast(device_type=queries.device.type, enabled=False):
        dtype = torch.promote_types(torch.promote_types(queries.dtype, tiles.dtype), torch.float32)
        ignore = ignore.scatter(1, own[:, None], False)  # [Q, P]
        used = ~ignore if extra is None else ~ignore | _marked(extra, ignore)
        ignore = ignore if extra is None else ignore | _marked(extra, ignore)
        unused = ~used.any(dim=0)  # tiles that count for no query: whatever they hold must not reach a gradient
        queries, tiles = queries.to(dtype), tiles.to(dtype).masked_fill(unused[:, None], 0.0)
        if not matryoshka:
            return _one_size(queries, tiles, own, extra, ignore, temperature, margin, symmetric)
        losses = []
        for dimension in sorted(matryoshka):
            q, p = F.normalize(queries[:, :dimension], dim=-1), F.normalize(tiles[:, :dimension], dim=-1)
            loss, stats = _one_size(q, p, own, extra, ignore, temperature, margin, symmetric)
            losses.append(loss)
        return torch.stack(losses).sum(), stats


def _one_size(
    queries: Tensor,
    tiles: Tensor,
    positive: Tensor,
    extra: Tensor | None,
    ignore: Tensor,
    temperature: float | Tensor,
    margin: float | None,
    symmetric: bool,
) -> tuple[Tensor, Stats]:
    cosine = queries @ tiles.T  # [Q, P]
    of_positive = cosine.gather(1, positive[:, None])  # [Q, 1]
    if margin is not None:
        above = cosine.detach() > of_positive.detach() + margin
        ignore = (ignore | above).scatter(1, positive[:, None], False)
    if extra is not None:
        loss = _each_positive(cosine / temperature, positive, extra, ignore)
    else:
        loss = F.cross_entropy((cosine / temperature).masked_fill(ignore, -torch.inf), positive)
    if symmetric:
        loss = (loss + _tile_to_query(cosine, positive, ignore, temperature, margin)) / 2
    return loss, _statistics(cosine.detach(), of_positive.detach(), positive, ignore, temperature)


def _marked(extra: Tensor, ignore: Tensor) -> Tensor:
    """[Q, P], true at the further positives of each query."""
    counts = torch.zeros_like(ignore, dtype=torch.int64)
    return counts.scatter_add(1, extra.clamp(min=0), (extra >= 0).to(torch.int64)) > 0


def _each_positive(logits: Tensor, positive: Tensor, extra: Tensor, ignore: Tensor) -> Tensor:
    """Mean over queries of the mean over their positives of the cross-entropy of each, the others left out."""
    losses, counted = [], []
    ignore = ignore.scatter(1, positive[:, None], True)  # [Q, P]: all but the negatives
    for target in torch.cat([positive[:, None], extra], dim=1).T:  # [Q]
        there = target >= 0
        chosen = torch.where(there, target, positive)
        alone = ignore.scatter(1, chosen[:, None], False)
        losses.append(F.cross_entropy(logits.masked_fill(alone, -torch.inf), chosen, reduction="none"))
        counted.append(there.to(logits.dtype))
    each, weights = torch.stack(losses, dim=1), torch.stack(counted, dim=1)  # [Q, R]
    return ((each * weights).sum(dim=1) / weights.sum(dim=1)).mean()


def _tile_to_query(
    cosine: Tensor, positive: Tensor, ignore: Tensor, temperature: float | Tensor, margin: float | None
) -> Tensor:
    """Each query's positive tile against all queries: row i is tile positive[i], column j is query j."""
    scores = cosine[:, positive].T  # [Q, Q]
    own = torch.arange(len(positive), device=positive.device)
    not_negative = ignore[:, positive].T | (positive[:, None] == positive[None, :])
    if margin is not None:
        not_negative = not_negative | (scores.detach() > scores.detach().diagonal()[:, None] + margin)
    not_negative = not_negative.scatter(1, own[:, None], False)
    return F.cross_entropy((scores / temperature).masked_fill(not_negative, -torch.inf), own)


def _statistics(
    cosine: Tensor, of_positive: Tensor, positive: Tensor, ignore: Tensor, temperature: float | Tensor
) -> Stats:
    """Ties are misses; a query without negatives is a hit and has no margin; means over nothing are 0."""
    negative = ~ignore.scatter(1, positive[:, None], True)  # [Q, P]
    hardest = cosine.masked_fill(~negative, -torch.inf).amax(dim=1)  # [Q]
    has_negative = negative.any(dim=1)
    gaps = torch.where(has_negative, of_positive[:, 0] - hardest, 0.0)
    return {
        "positive_similarity": of_positive.mean(),
        "negative_similarity": cosine.masked_fill(~negative, 0.0).sum() / negative.sum().clamp(min=1),
        "margin": gaps.sum() / has_negative.sum().clamp(min=1),
        "accuracy": (of_positive[:, 0] > hardest).to(cosine.dtype).mean(),
        "valid_negatives": negative.sum(dim=1).to(cosine.dtype).mean(),
        "temperature": torch.as_tensor(temperature, dtype=cosine.dtype, device=cosine.device).detach().clone(),
    }


def _check(
    queries: Tensor,
    tiles: Tensor,
    positive: Tensor,
    ignore: Tensor,
    temperature: float | Tensor,
    matryoshka: Sequence[int],
) -> None:
    if queries.dim() != 2 or tiles.dim() != 2 or queries.shape[1] != tiles.shape[1]:
        raise ValueError(f"wanted queries [Q, D] and tiles [P, D], found {_shape(queries)} and {_shape(tiles)}")
    count = len(queries)
    if count == 0 or positive.shape != (count,) or positive.dtype != torch.int64:
        raise ValueError(f"wanted positive [{count}] of int64, Q > 0; found {_shape(positive)} of {positive.dtype}")
    if ignore.shape != (count, len(tiles)) or ignore.dtype != torch.bool:
        raise ValueError(f"wanted ignore [{count}, {len(tiles)}] of bool, found {_shape(ignore)} of {ignore.dtype}")
    if isinstance(temperature, Tensor):
        if temperature.dim() != 0:
            raise ValueError(f"wanted a 0-d temperature, found {_shape(temperature)}")
    elif not temperature > 0:
        raise ValueError(f"wanted a temperature above 0, found {temperature}")
    size = queries.shape[1]
    if len(set(matryoshka)) != len(matryoshka) or not all(1 <= dimension <= size for dimension in matryoshka):
        raise ValueError(f"matryoshka: wanted distinct dimensions from 1 to {size}, found {list(matryoshka)}")


def _check_extra(extra: Tensor | None, own: Tensor, tiles: int) -> None:
    """Raise ValueError unless further positives are rows of tiles, or -1, and other than the first."""
    if extra is None:
        return
    if extra.dtype != torch.int64 or bool(((extra < -1) | (extra >= tiles) | (extra == own[:, None])).any()):
        raise ValueError(
            f"wanted further positives from -1 to {tiles - 1} other than the first, found {extra.tolist()}"
        )


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
