"""Lazy layers, moved to the virtual GPU before they have a shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_lazy_layers_are_made_where_they_were_moved_to(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import copy
        import torch
        from torch import nn

        model = nn.Sequential(nn.LazyConv2d(16, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).to("cuda")
        other = copy.deepcopy(model)
        device = next(model.parameters()).device
        assert device.type == "cuda", device
        weight = model[0].weight
        x = torch.randn(4, 3, 8, 8, device=device)
        model(x), other(x)
        assert weight is model[0].weight and weight.is_cuda and isinstance(weight, nn.Parameter)
        assert other[3].weight.is_cuda and other[3].weight.shape == (10, 576)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        half = nn.LazyLinear(4).half().cuda()
        assert half(x[:, 0, 0].half()).dtype == torch.float16 and half.weight.is_cuda
        there = nn.LazyLinear(4, device="cuda")
        there(x[:, 0, 0])
        norm = nn.LazyBatchNorm2d().cuda()
        norm(x)
        assert there.weight.is_cuda and norm.running_mean.is_cuda and norm.weight.is_cuda
        host = nn.LazyLinear(4)
        host(torch.ones(2, 3))
        assert not host.weight.is_cuda
        """
    )
    assert seen.steps == 3
    assert seen.categories["parameter"] >= 4 * (16 * 27 + 16 + 5760 + 10)
