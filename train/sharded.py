"""What ways of training with weights in parts share: a twin of the model that holds whole weights for a while."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tilewright.train.encoder import Encoder


class Twin:
    """A copy of the encoder's model without weights, made before they are taken apart.

    ``holding`` lends it whole weights and puts it in the model's place: encoding and saving then need no other rank.
    Buffers are shared with the model.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        memo: dict[int, object] = {id(buffer): buffer for buffer in encoder.model.buffers()}
        for parameter in encoder.model.parameters():
            memo[id(parameter)] = nn.Parameter(_hollow(parameter), requires_grad=parameter.requires_grad)
        self._model = copy.deepcopy(encoder.model, memo)

    @contextmanager
    def holding(self, whole: Callable[[], dict[str, Tensor]]) -> Iterator[None]:
        """``whole`` gives {name: whole weight} of the encoder's model."""
        sharded, twin = self._encoder.model, self._model
        twin.load_state_dict(whole(), strict=False, assign=True)
        twin.train(sharded.training)
        self._encoder.model = twin
        try:
            yield
        finally:
            self._encoder.model = sharded
            hollow = {name: _hollow(parameter) for name, parameter in twin.named_parameters()}
            twin.load_state_dict(hollow, strict=False, assign=True)


def _hollow(parameter: Tensor) -> Tensor:
    return torch.empty_like(parameter, device="meta")
