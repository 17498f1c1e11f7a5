"""Sparse gradients of tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_sparse_gradient_holds_the_rows_that_were_looked_up(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn

        table = nn.Embedding(1000, 64, sparse=True).cuda()
        small = nn.Embedding(50, 64, sparse=True).cuda()
        merged = nn.Embedding(50, 64, sparse=True).cuda()
        optimizers = [
            torch.optim.SparseAdam(table.parameters()),
            torch.optim.SGD(small.parameters(), lr=0.1),
            torch.optim.Adagrad(merged.parameters(), lr=0.1),
        ]
        for step in range(3):
            rows = torch.randint(0, 50, (20, 10), device="cuda")
            before = torch.cuda.memory_allocated()
            table(rows).square().sum().backward()
            gradient = table.weight.grad
            assert gradient.is_sparse and gradient._nnz() == 200, gradient
            # Values only: the indices are the batch's own. 200 rows of 64 numbers in fp32.
            grown = torch.cuda.memory_allocated() - before
            assert grown == 200 * 64 * 4, grown
            (small(rows) * merged(rows)).sum().backward()
            assert small.weight.grad.coalesce()._nnz() == 50  # there are no more rows
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            del gradient
        """
    )
    assert seen.steps == 3
