"""The one loss object of a run: InfoNCE with its options and temperature, the same in every phase and code path."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tilewright.train.losses import Stats, info_nce

LOWEST_TEMPERATURE = 0.01  # CLIP's bound: logits of unit vectors stay below 100


@dataclass(frozen=True)
class LossConfig:
    """Options of ``info_nce``; with ``learn_temperature`` the logarithm is trained, starting at ``temperature``."""

    temperature: float
    learn_temperature: bool
    symmetric: bool = False
    margin: float | None = None
    matryoshka: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.temperature >= LOWEST_TEMPERATURE:
            raise ValueError(f"temperature: wanted at least {LOWEST_TEMPERATURE}, found {self.temperature}")
        if len(set(self.matryoshka)) < len(self.matryoshka) or any(size < 1 for size in self.matryoshka):
            raise ValueError(f"matryoshka: wanted different dimensions above 0, found {list(self.matryoshka)}")


class Objective(nn.Module):
    """Calls ``info_nce``; holds the logarithm of the temperature (a parameter, frozen unless it is learned)."""

    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        self.config = config
        start = torch.tensor(math.log(config.temperature))
        self.log_temperature = nn.Parameter(start, requires_grad=config.learn_temperature)

    def forward(self, queries: Tensor, tiles: Tensor, positive: Tensor, ignore: Tensor) -> tuple[Tensor, Stats]:
        """queries [Q, D], tiles [P, D], positive [Q] or [Q, R], ignore [Q, P] -> (loss, stats); see ``info_nce``."""
        return info_nce(
            queries,
            tiles,
            positive,
            ignore,
            self.log_temperature.exp(),
            margin=self.config.margin,
            symmetric=self.config.symmetric,
            matryoshka=self.config.matryoshka,
        )

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep the temperature at or above LOWEST_TEMPERATURE; call after each update."""
        self.log_temperature.clamp_(min=math.log(LOWEST_TEMPERATURE))
