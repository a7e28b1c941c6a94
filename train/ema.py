"""An exponential moving average of the trained weights, in their place for as long as they are searched or saved."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tilewright.configs.errors import InputError


class Ema:
    """After update n the average is ``decay`` times the old one plus ``1 - decay`` times the weights, in float32.

    The first n updates count more, ``min(decay, (1 + n) / (10 + n))``, so that the start is soon forgotten (as
    TensorFlow's ExponentialMovingAverage with ``num_updates``). Weights must be whole on each rank.
    """

    def __init__(self, weights: Mapping[str, nn.Parameter], decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"decay: wanted between 0 and 1, found {decay}")
        self._weights, self._decay, self._updates = weights, decay, 0
        self._average = {name: weight.detach().float().clone() for name, weight in weights.items()}
        self._swapped = False

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights in; call after each update of theirs. Raises RuntimeError within ``averaged``."""
        if self._swapped:
            raise RuntimeError("the averaged weights are in place: wanted updates outside of `averaged`")
        self._updates += 1
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        for name, weight in self._weights.items():
            self._average[name].lerp_(weight.float(), 1 - decay)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within, the weights are the averaged ones; then, whatever happens, those of training again, bit for bit."""
        if self._swapped:
            raise RuntimeError("the averaged weights are in place already")
        trained = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._swapped = True
        try:
            self._write(self._average)
            yield
        finally:
            self._write(trained)
            self._swapped = False

    @torch.no_grad()
    def _write(self, values: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(values[name])

    def weights(self) -> dict[str, Tensor]:
        """{name: average}; not to be written to."""
        return dict(self._average)

    def state(self) -> dict[str, Tensor]:
        """What ``load`` takes: the averages by name, and the number of updates under ``updates``."""
        return {**self._average, "updates": torch.tensor(self._updates)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a ``state``. Raises InputError if it has other names or shapes."""
        values = dict(state)
        updates = values.pop("updates", None)
        shapes = {name: average.shape for name, average in self._average.items()}
        if updates is None or {name: value.shape for name, value in values.items()} != shapes:
            differing = sorted(shapes.keys() ^ values.keys()) or "shapes"
            raise InputError(f"average: wanted {len(shapes)} weights of the run, found others: {differing}")
        self._updates = int(updates)
        for name, average in self._average.items():
            average.copy_(values[name])
