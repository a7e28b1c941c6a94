"""The linear patch embedding equals the convolution it replaces."""

import copy

import pytest
import torch
from torch import nn

from tilewright.train.linear_patch import LinearPatchProjection, linearise_patch_embedding


class _PatchEmbed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv3d(3, 24, kernel_size=(2, 16, 16), stride=(2, 16, 16))


class _Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = _PatchEmbed()


def test_equal_outputs_and_gradients() -> None:
    torch.manual_seed(0)
    convolution = nn.Conv3d(3, 24, kernel_size=(2, 16, 16), stride=(2, 16, 16))
    linear = LinearPatchProjection(copy.deepcopy(convolution))
    patches = torch.randn(7, 3, 2, 16, 16)
    wanted, found = convolution(patches).flatten(1), linear(patches)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    wanted.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(linear.weight.grad, convolution.weight.grad, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(linear.bias.grad, convolution.bias.grad, atol=1e-4, rtol=1e-4)


def test_a_repeated_frame_gives_the_same_from_half_of_the_work() -> None:
    torch.manual_seed(0)
    convolution = nn.Conv3d(3, 24, kernel_size=(2, 16, 16), stride=(2, 16, 16))
    linear = LinearPatchProjection(copy.deepcopy(convolution))
    repeated = torch.randn(7, 3, 1, 16, 16).expand(-1, 3, 2, 16, 16)
    assert repeated.stride(2) == 0
    wanted, found = convolution(repeated).flatten(1), linear(repeated)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    wanted.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(linear.weight.grad, convolution.weight.grad, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(linear.bias.grad, convolution.bias.grad, atol=1e-4, rtol=1e-4)


def test_same_names_and_weights() -> None:
    tower = _Tower()
    before = {name: value.clone() for name, value in tower.state_dict().items()}
    assert linearise_patch_embedding(tower) == 1
    after = tower.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert linearise_patch_embedding(tower) == 0


def test_another_convolution_is_refused() -> None:
    with pytest.raises(ValueError, match="whose stride is its kernel"):
        LinearPatchProjection(nn.Conv3d(3, 8, kernel_size=(2, 16, 16), stride=(1, 16, 16)))
