"""Watches losses and soft-maxes: what they are given, and where it comes from."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.watch.operators import Operators, path_of, places_of

_POINTWISE = "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"
_BEFORE, _SPREAD = "_shape_before_expand", "_compared_shapes"


def install(operators: Operators) -> None:
    """Note every loss and soft-max."""
    seen = operators.seen

    def soft_max(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source, dim = args[0], int(args[1])
        seen.note(
            name.strip("_"), **_origin(source), shape=list(source.shape), dim=dim % max(1, source.dim()),
            dtype=_type(source), graph=torch.is_grad_enabled(),
        )  # fmt: skip

    def log_likelihood(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source = args[0]
        seen.note(
            "nll_loss", **_origin(source), shape=list(source.shape), dtype=_type(source), operator=name,
            classes=int(source.shape[1] if source.dim() > 1 else source.shape[0]), graph=torch.is_grad_enabled(),
            reduction=int(args[3]) if len(args) > 3 and isinstance(args[3], int) else 1,
        )  # fmt: skip

    def pointwise(name: str, args: Any, kwargs: Any, result: Any) -> None:
        one, other = args[0], args[1]
        reduction = args[-1] if isinstance(args[-1], int) and not isinstance(args[-1], bool) else 1
        seen.note(
            name, **_origin(one), target=list(path_of(other)), shape=list(one.shape), target_shape=list(other.shape),
            given=before_expand(one), compared=before_expand(other), dtype=_type(one), reduction=reduction,
            same=one is other, graph=torch.is_grad_enabled(),
        )  # fmt: skip

    operators.tell("_softmax _log_softmax", soft_max)
    operators.tell("nll_loss_forward nll_loss2d_forward nll_loss_nd", log_likelihood)
    operators.tell(_POINTWISE, pointwise)
    _watch_broadcasts(operators)


def _watch_broadcasts(operators: Operators) -> None:
    """Note differences of (N, 1) and (N,) that end in one number: losses that are written out, and ``l1_loss``."""

    def expand(name: str, args: Any, kwargs: Any, result: Any) -> None:
        result.__dict__[_BEFORE] = before_expand(args[0])

    def difference(name: str, args: Any, kwargs: Any, result: Any) -> None:
        one, other = args[0], args[1]
        if (
            isinstance(one, torch.Tensor)
            and isinstance(other, torch.Tensor)
            and one.requires_grad != other.requires_grad
        ):
            shapes = before_expand(one), before_expand(other)
            if _spreads(*shapes):
                result.__dict__[_SPREAD] = shapes

    def go_on(name: str, args: Any, kwargs: Any, result: Any) -> None:
        told = getattr(args[0], _SPREAD, None)
        if told is not None:
            result.__dict__[_SPREAD] = told

    def reduce(name: str, args: Any, kwargs: Any, result: Any) -> None:
        told = getattr(args[0], _SPREAD, None)
        if told is not None and result.dim() == 0:
            operators.seen.note("difference", given=told[0], compared=told[1], graph=torch.is_grad_enabled())

    operators.tell("expand", expand)
    operators.tell("sub rsub", difference)
    operators.tell("pow square abs mul", go_on)
    operators.tell("mean sum", reduce)


def before_expand(tensor: Any) -> list[int]:
    """Return the shape that a tensor had before it was broadcast."""
    return list(getattr(tensor, _BEFORE, None) or tensor.shape)


def _spreads(one: list[int], other: list[int]) -> bool:
    column, row = (one, other) if len(one) == 2 else (other, one)
    return len(column) == 2 and len(row) == 1 and column[1] == 1 and column[0] == row[0] > 1


def _origin(tensor: Any) -> dict[str, Any]:
    return {"path": list(path_of(tensor)), "places": list(places_of(tensor))}


def _type(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
