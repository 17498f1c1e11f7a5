"""How the graph of a loss is gone through."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from preflight.monitor.collect.graph import Graph  # noqa: E402


class Slice(torch.autograd.Function):  # type: ignore[misc]
    """A function of the program, which has nothing of what torch's own slice has."""

    @staticmethod
    def forward(ctx: Any, given: Any) -> Any:
        return given[1:].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return torch.cat([gradient.new_zeros(1), gradient])


def test_a_function_of_the_program_that_is_called_slice_is_an_operation_like_others() -> None:
    given = torch.ones(4, requires_grad=True)
    assert Graph(Slice.apply(given).sum().grad_fn).names == ["AccumulateGrad", "Slice", "Sum"]


def test_a_slice_that_takes_all_is_passed_by() -> None:
    given = torch.ones(4, requires_grad=True)
    whole, part = (torch.ops.aten.slice(given, 0, first, (1 << 63) - 1, 1) for first in (0, 1))
    assert Graph(whole.sum().grad_fn).names == ["AccumulateGrad", "Sum"]
    assert Graph(part.sum().grad_fn).names == ["AccumulateGrad", "Slice", "Sum"]


class Transpose(torch.autograd.Function):  # type: ignore[misc]
    """Another one: which axes it exchanges it does not say."""

    @staticmethod
    def forward(ctx: Any, given: Any) -> Any:
        return given.transpose(-1, -2).clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.transpose(-1, -2)


def test_axes_that_a_function_of_the_program_lays_out_are_not_known() -> None:
    query, key, value = (torch.randn(2, 4, 4, requires_grad=True) for _ in range(3))
    weights = torch.softmax(torch.bmm(query, key), -1)
    assert Graph(torch.bmm(weights.transpose(-1, -2), value).sum().grad_fn).crosswise() == 1.0
    assert Graph(torch.bmm(Transpose.apply(weights), value).sum().grad_fn).crosswise() is None
