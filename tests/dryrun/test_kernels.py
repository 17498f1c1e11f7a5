"""Kernels in Triton, which cannot be run: what a launch leaves behind."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_the_tensors_that_a_kernel_reads_and_writes_are_told_from_its_text() -> None:
    from preflight.dryrun.virtual.engine.kernels import Pointers

    kernel = """
def kernel(x, index, out, total, table, count, BLOCK):
    places = program_id(0) * BLOCK + arange(0, BLOCK)
    for start in range(0, count, BLOCK):
        x_at = x + start + places
        found = load(x_at) + load(index + places)
        store(out + load(index + places), found)
    tl.atomic_add(total, 1.0)
    block = tl.make_block_ptr(base=table, shape=(count,))
    tl.load(block)
"""
    names = ["x", "index", "out", "total", "table", "count", "BLOCK"]
    loaded, stored = Pointers(names).follow(ast.parse(kernel))
    assert loaded & {"x", "index", "out", "total", "table"} == {"x", "index", "total", "table"}
    assert stored & set(names[:5]) == {"out", "total"}


def test_launches_are_counted_and_what_they_write_is_unknown_afterwards(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch

        try:
            import triton
            import triton.language as tl
        except ImportError:
            triton = None
        assert triton is not None  # as on a machine with a GPU

        @triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
        @triton.jit
        def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = torch.zeros_like(x)
                assert out[0, 0].item() == 0.0
                double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
                assert out.sum().item() != 0.0, "the kernel has written to it"
                return out

            @staticmethod
            def backward(ctx, grad):
                return 2 * grad

        weight = torch.nn.Parameter(torch.ones(4, 8, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            Double.apply(weight).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        try:
            double[(1,)](torch.ones(4), weight, 4)
        except ValueError as error:
            assert "cannot be accessed from Triton" in str(error)
        else:
            raise AssertionError("a tensor on the host is no pointer of the GPU's")
        """
    )
    assert seen.steps == 3
    assert any("double (3x)" in line for line in seen.assumptions)
