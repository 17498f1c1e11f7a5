"""Watches half precision where it is too narrow or too soon left: sums, exponentials, and logits that become fp32."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.watch.operators import Operators, path_of

_SUM = 1 << 11  # elements; the sum of so many squares of 6 is 65 504, the largest number of fp16
_LARGE = 1 << 22
_EXPONENTIAL, _CAST = "_exponential_at", "_cast_from_half"
_VIEWS = "view _unsafe_view reshape transpose permute t slice clone"
# What was subtracted, negated or limited does not grow: soft-max subtracts the largest, a Gaussian has a minus.
_BOUNDED = frozenset(
    "sub rsub neg clamp clamp_max clamp_min minimum hardtanh tanh sigmoid _log_softmax logsumexp".split()
)
_HALVES = (torch.float16, torch.bfloat16)


def install(operators: Operators) -> None:
    """Note what rules on half precision ask for."""
    seen = operators.seen

    def exponential(name: str, args: Any, kwargs: Any, result: Any) -> None:
        path = path_of(args[0])
        if result.dtype is torch.float16 and args[0].requires_grad and path and path[0] not in _BOUNDED:
            result.__dict__[_EXPONENTIAL] = seen.progress.line()

    def summed(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source = args[0]
        line = getattr(source, _EXPONENTIAL, None)
        if line is not None:
            seen.note("exponentials summed", line=line, shape=list(source.shape), before=path_of(source)[1:2][0])
        length = source.numel() // max(1, result.numel())
        if result.dtype is torch.float16 and args[0].requires_grad and length >= _SUM:
            squares = bool(path_of(source)) and path_of(source)[0] in ("pow", "square", "mul")
            seen.note("long sum", length=int(length), squares=squares, shape=list(source.shape))

    def cast(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source = args[0]
        if (
            source.dtype in _HALVES
            and result.dtype is torch.float32
            and args[0].requires_grad
            and result.numel() >= _LARGE
        ):
            result.__dict__[_CAST] = seen.progress.line()

    def viewed(name: str, args: Any, kwargs: Any, result: Any) -> None:
        line = getattr(args[0], _CAST, None)
        if line is not None:
            result.__dict__[_CAST] = line

    def compared(name: str, args: Any, kwargs: Any, result: Any) -> None:
        line = getattr(args[0], _CAST, None)
        if line is not None:
            size = args[0].numel() * args[0].element_size()
            seen.note("logits upcast", line=line, shape=list(args[0].shape), bytes=int(size), dim=int(args[1]))

    operators.tell("exp exp2", exponential)
    operators.tell("sum", summed)
    operators.tell("_to_copy", cast)
    operators.tell(_VIEWS, viewed)
    operators.tell("_log_softmax", compared)
