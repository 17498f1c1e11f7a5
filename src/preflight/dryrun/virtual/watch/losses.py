"""Watches losses and soft-maxes: what they are given, and where it comes from."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.watch.operators import Operators, path_of

_POINTWISE = "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"


def install(operators: Operators) -> None:
    """Note every loss and soft-max."""
    seen = operators.seen

    def soft_max(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source, dim = args[0], int(args[1])
        seen.note(
            name.strip("_"), path=list(path_of(source)), shape=list(source.shape), dim=dim % max(1, source.dim()),
            dtype=_type(source), graph=torch.is_grad_enabled(),
        )  # fmt: skip

    def log_likelihood(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source = args[0]
        seen.note(
            "nll_loss", path=list(path_of(source)), shape=list(source.shape), dtype=_type(source), operator=name,
            classes=int(source.shape[1] if source.dim() > 1 else source.shape[0]),
        )  # fmt: skip

    def pointwise(name: str, args: Any, kwargs: Any, result: Any) -> None:
        one, other = args[0], args[1]
        reduction = args[-1] if isinstance(args[-1], int) and not isinstance(args[-1], bool) else 1
        seen.note(
            name, path=list(path_of(one)), target=list(path_of(other)), shape=list(one.shape),
            target_shape=list(other.shape), dtype=_type(one), reduction=reduction, same=one is other,
        )  # fmt: skip

    operators.tell("_softmax _log_softmax", soft_max)
    operators.tell("nll_loss_forward nll_loss2d_forward nll_loss_nd", log_likelihood)
    operators.tell(_POINTWISE, pointwise)


def _type(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
