"""Models that are larger than the memory of the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_large_model_is_made_on_the_host_in_a_small_memory(
    run_program: Callable[[str], Profile],
) -> None:
    seen = run_program(
        """
        import copy, resource
        import torch
        from torch import nn

        def resident():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

        before = resident()
        model = nn.Sequential(*[nn.Linear(16384, 16384, bias=False) for _ in range(8)])
        for layer in model:
            nn.init.normal_(layer.weight, std=0.02)
            layer.weight.data.normal_(0, 0.02).mul_(0.5)
        twin = copy.deepcopy(model)
        model = model.to(torch.bfloat16)
        half = nn.Parameter(torch.randn(16384, 16384).half())
        assert resident() - before < 200, resident() - before
        assert model[0].weight.shape == (16384, 16384) and model[0].weight.dtype is torch.bfloat16
        assert half.dtype is torch.float16

        # What is written stays: small tensors, integers, and what comes from data.
        table = torch.empty(1024, 2048)
        table[3] = torch.arange(2048.0)
        assert table.clone()[3].sum() == 2047 * 1024
        assert float(torch.randn(1000).std()) > 0.5
        assert int(torch.randint(5, 9, (2_000_000,)).min()) == 5
        first = model.to("cuda")[0]
        optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
        for _ in range(2):
            first(torch.randn(4, 16384, device="cuda", dtype=torch.bfloat16)).sum().backward()
            optimizer.step()
        """,
    )
    assert seen.peak_bytes > 8 * 16384 * 16384 * 2
