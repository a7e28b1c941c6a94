"""What kind of index, how fine, how much memory: settings by the user, a plan with every number filled in."""

import math
from dataclasses import dataclass
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError

Kind = Literal["flat", "ivf", "ivf_sq8", "ivf_pq"]
KINDS: tuple[Kind, ...] = ("flat", "ivf", "ivf_sq8", "ivf_pq")  # from exact and large to coarse and small
POINTS_PER_CENTROID = 39  # FAISS's Clustering.min_points_per_centroid: below, centroids are noise
FLAT_BELOW = 100_000  # tiles up to which exact search is quick enough for auto
_ID_BYTES = 8
_MAX_M = 64


@dataclass(frozen=True)
class IndexSettings:
    """``kind``: flat (exact), ivf, ivf_sq8, ivf_pq, or auto: flat below 100,000 tiles, else the most exact kind that
    takes at most ``memory_budget_gb``. None of ``nlist``, ``nprobe``, ``m``, ``training_sample`` means: by size.

    ``nlist``, ``nprobe``, ``m``, ``nbits`` are FAISS's: inverted lists, lists searched, bytes (of ``nbits`` = 8 bits) a
    vector. ``training_sample`` vectors, drawn by ``seed``, train the quantiser.
    """

    kind: Literal["auto", "flat", "ivf", "ivf_sq8", "ivf_pq"] = "auto"
    memory_budget_gb: float = 8.0
    nlist: int | None = None
    nprobe: int | None = None
    m: int | None = None
    nbits: int = 8
    training_sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "nlist", "nprobe", "m", "training_sample")
        check_bounds(self, 1, 8, "nbits")
        check_bounds(self, 0, 2**31 - 1, "seed")  # FAISS's seed is an int
        if not self.memory_budget_gb > 0:
            raise ValueError(f"memory_budget_gb: wanted more than 0, found {self.memory_budget_gb}")


@dataclass(frozen=True)
class RecallSettings:
    """Recall@10 against exact search is measured with ``queries`` of the vectors, drawn by ``seed``; an index below
    ``floor`` is refused."""

    queries: int = 256
    floor: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "queries")
        check_bounds(self, 0, 1, "floor")
        check_bounds(self, 0, None, "seed")


AUTO, FLAT = IndexSettings(), IndexSettings("flat")
RECALL = RecallSettings()


@dataclass(frozen=True)
class Plan:
    """A kind with all its numbers; those that a kind doesn't use are 0."""

    kind: str
    nlist: int = 0
    nprobe: int = 0
    m: int = 0
    nbits: int = 0
    training_sample: int = 0
    seed: int = 0

    @property
    def training_need(self) -> int:
        """How many vectors its quantisers need at least."""
        return POINTS_PER_CENTROID * max(self.nlist, 2**self.nbits if self.m else 0)

    def index_bytes(self, count: int, dimension: int) -> int:
        """What ``count`` tiles take, tile ids apart."""
        if self.kind == "flat":
            return 4 * dimension * count
        code_bytes = {"ivf": 4 * dimension, "ivf_sq8": dimension}.get(self.kind, -(-self.m * self.nbits // 8))
        return (code_bytes + _ID_BYTES) * count + 4 * dimension * self.nlist


def make_plan(settings: IndexSettings, count: int, dimension: int) -> Plan:
    """The plan for ``count`` vectors of ``dimension``.

    Raises InputError if ``m`` doesn't divide the dimension, if training needs more vectors than there are (auto takes
    flat then), and if no kind fits the budget of auto.
    """
    if settings.kind != "auto":
        plan = _plan_of(settings, settings.kind, count, dimension)
        _check_training(plan, settings, count)
        return plan
    budget = settings.memory_budget_gb * 2**30
    plans = [_plan_of(settings, kind, count, dimension) for kind in KINDS]
    if count >= FLAT_BELOW:
        plans = plans[1:]
    plans = [plan for plan in plans if plan.training_need <= count] or [Plan("flat")]
    sizes = {plan.kind: plan.index_bytes(count, dimension) for plan in plans}
    fitting = next((plan for plan in plans if sizes[plan.kind] <= budget), None)
    if fitting is None:
        needs = ", ".join(f"{kind} {size / 2**30:.3g} GiB" for kind, size in sizes.items())
        raise InputError(
            f"memory_budget_gb: {count} vectors of {dimension} dimensions need {needs}; found"
            f" {settings.memory_budget_gb:g}: raise it, or set a smaller m"
        )
    _check_training(fitting, settings, count)
    return fitting


def _plan_of(settings: IndexSettings, kind: Kind, count: int, dimension: int) -> Plan:
    if kind == "flat":
        return Plan("flat")
    nlist = settings.nlist or _power_of_two(min(4 * math.sqrt(count), count / POINTS_PER_CENTROID))
    nprobe = min(settings.nprobe or max(8, nlist // 32), nlist)
    m, nbits = (0, 0)
    if kind == "ivf_pq":
        m, nbits = settings.m or _divisor(dimension), settings.nbits
        if dimension % m:
            raise InputError(f"m: wanted a divisor of the dimension {dimension}, found {m}")
    plan = Plan(kind, nlist, nprobe, m, nbits, 0, settings.seed)
    sample = settings.training_sample or max(plan.training_need, (POINTS_PER_CENTROID + 1) * nlist)
    return Plan(kind, nlist, nprobe, m, nbits, min(sample, count), settings.seed)


def _check_training(plan: Plan, settings: IndexSettings, count: int) -> None:
    need = plan.training_need
    if count < need:
        raise InputError(
            f"kind {plan.kind}: training {plan.nlist} lists{' and 2^nbits centroids' if plan.m else ''} needs at least"
            f" {need} vectors, found {count}: use kind flat, or a smaller nlist{' or nbits' if plan.m else ''}"
        )
    if plan.training_sample < need:
        raise InputError(f"training_sample: kind {plan.kind} needs at least {need}, found {settings.training_sample}")


def _power_of_two(number: float) -> int:
    """The largest power of two up to ``number``, at least 1."""
    return 1 << max(0, math.floor(math.log2(max(number, 1))))


def _divisor(dimension: int) -> int:
    """The largest divisor of ``dimension`` up to 64."""
    return next(m for m in range(min(_MAX_M, dimension), 0, -1) if dimension % m == 0)
