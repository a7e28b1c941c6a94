"""The vision tower's patch embedding as a linear map: same weights, same names, without the slow convolution."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F


class LinearPatchProjection(nn.Module):
    """A Conv3d whose stride is its kernel, applied to single patches: ``x @ weight.flatten(1).T + bias``.

    ``weight`` [D, C, T, p, p] and ``bias`` [D] are the convolution's own parameters, so state dicts don't change.
    """

    def __init__(self, convolution: nn.Conv3d) -> None:
        super().__init__()
        if convolution.stride != convolution.kernel_size or convolution.groups != 1 or any(convolution.padding):
            raise ValueError(f"wanted a convolution whose stride is its kernel, found {convolution}")
        self.weight = convolution.weight
        self.bias = convolution.bias

    def forward(self, patches: Tensor) -> Tensor:
        """patches [N, C, T, p, p] -> [N, D]; a view that repeats one frame costs a frame: its weights are added up."""
        if patches.dim() == 5 and patches.stride(2) == 0:
            return F.linear(patches[:, :, 0].flatten(1), self.weight.sum(2).flatten(1), self.bias)
        return F.linear(patches.flatten(1), self.weight.flatten(1), self.bias)


def linearise_patch_embedding(model: Any) -> int:
    """Replace every ``patch_embed.proj`` convolution inside ``model``; return how many there were."""
    found = [
        module
        for name, module in model.named_modules()
        if name.split(".")[-1] == "patch_embed" and isinstance(getattr(module, "proj", None), nn.Conv3d)
    ]
    for module in found:
        module.proj = LinearPatchProjection(module.proj)
    return len(found)
