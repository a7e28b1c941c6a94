"""How much memory autograd graphs take: measured where one is kept, foretold by the number of tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.train.batch import Batch


@dataclass
class GraphMemory:
    """Bytes of the graphs of ``model`` that are kept within a step, and what a token has cost so far.

    The first chunk of a run is kept to learn that, whatever it takes (unless nothing may be kept).
    """

    model: nn.Module
    kept_bytes: int = 0
    bytes_per_token: dict[bool, float] = field(default_factory=dict)  # by: with images

    def has_room(self, chunk: Batch, budget_bytes: int) -> bool:
        """Whether the graph of ``chunk`` is expected to fit beside those that are kept."""
        if budget_bytes == 0:
            return False
        expected = self.bytes_per_token.get(chunk.patches is not None, 0.0) * chunk.input_ids.numel()
        return self.kept_bytes + expected <= budget_bytes

    def start_step(self) -> None:
        """Nothing is kept any more."""
        self.kept_bytes = 0

    @contextmanager
    def measured(self, chunk: Batch) -> Iterator[None]:
        """Within, the graph of ``chunk`` is made: its bytes are added to what is kept."""
        device = next(self.model.parameters()).device
        if device.type == "cuda":
            before = torch.cuda.memory_allocated(device)
            yield
            size = torch.cuda.memory_allocated(device) - before
        else:
            with _saved_bytes(self.model) as seen:
                yield
            size = sum(seen.values())
        self.kept_bytes += size
        with_images = chunk.patches is not None
        per_token = size / max(chunk.input_ids.numel(), 1)
        self.bytes_per_token[with_images] = max(self.bytes_per_token.get(with_images, 0.0), per_token)


@contextmanager
def _saved_bytes(model: nn.Module) -> Iterator[dict[int, int]]:
    """{storage: bytes} of what graphs made within save for their backward pass, without the model's parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    def note_inputs(_module: nn.Module, arguments: tuple[Any, ...]) -> None:
        for argument in arguments:
            if isinstance(argument, Tensor):
                note(argument)

    checkpointed = [module for module in model.modules() if getattr(module, "gradient_checkpointing", False)]
    hooks = [module.register_forward_pre_hook(note_inputs) for module in checkpointed]  # it keeps what goes in
    try:
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()
