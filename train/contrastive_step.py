"""One step's loss and gradients: embed this rank's share, gather all vectors, one loss over the global batch."""

from torch import Tensor, zeros

from tilewright.train.batch import Batch
from tilewright.train.distributed import gather
from tilewright.train.encoder import Encoder
from tilewright.train.losses import Stats
from tilewright.train.objective import Objective
from tilewright.train.step_inputs import StepInputs


def contrastive_step(encoder: Encoder, objective: Objective, inputs: StepInputs) -> tuple[Tensor, Stats]:
    """Add this rank's part of the loss's gradients to the parameters; return (loss, stats) of the global batch.

    The loss is that of the global batch on every rank; ``average_gradients`` afterwards gives every rank the gradients
    that one rank would have computed alone. All vectors of a share are embedded with gradient at once.
    """
    queries = gather(_embed(encoder, inputs.queries), inputs.query_counts)
    tiles = gather(_embed(encoder, inputs.tiles), inputs.tile_counts)
    loss, stats = objective(queries, tiles, inputs.positive.to(queries.device), inputs.ignore.to(queries.device))
    loss.backward()
    return loss.detach(), stats


def _embed(encoder: Encoder, batch: Batch | None) -> Tensor:
    """[B, D]; an empty share still takes part in the gather's backward pass, as all ranks must."""
    if batch is None:
        return zeros(0, encoder.dimension, device=encoder.device, requires_grad=True)
    return encoder.forward(batch)
