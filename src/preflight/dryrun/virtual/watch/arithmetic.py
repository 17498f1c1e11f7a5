"""Watches arithmetic that loses numbers: logarithms of probabilities, roots of sums of squares, and where fp64 is used."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.watch.operators import Operators, path_of, places_of

Fake = private.fake_class()
_LARGE = 1 << 12  # elements; below, fp64 is a scalar, a schedule or a metric
_SQUARE = "_is_square"


def install(operators: Operators) -> None:
    """Note what rules on numerics ask for."""
    seen = operators.seen

    def risky(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source = args[0]
        if torch.is_grad_enabled() and source.requires_grad:
            seen.note(
                name.strip("_"), path=list(path_of(source)), places=list(places_of(source)), shape=list(source.shape),
                dtype=str(source.dtype).removeprefix("torch."), square=bool(getattr(source, _SQUARE, False)),
            )  # fmt: skip

    def square(name: str, args: Any, kwargs: Any, result: Any) -> None:
        power = name == "pow" and isinstance(args[1], (int, float)) and args[1] == 2
        if name == "square" or power or (name == "mul" and args[0] is args[1]):
            result.__dict__[_SQUARE] = True

    def summed(name: str, args: Any, kwargs: Any, result: Any) -> None:
        # A sum over everything is the loss itself; one for each example may be zero for some of them.
        if getattr(args[0], _SQUARE, False) and result.dim():
            result.__dict__[_SQUARE] = True

    wide: Counter[str] = Counter()

    def double(name: str, args: Any, kwargs: Any, result: Any) -> None:
        if getattr(result, "dtype", None) is torch.float64 and isinstance(result, Fake) and result.numel() >= _LARGE:
            line = seen.progress.line()
            wide[line] += 1
            if wide[line] == 1:
                seen.note("fp64", each=True, line=line, operator=name, shape=list(result.shape))

    operators.tell("log log2 log10 sqrt rsqrt", risky)
    operators.tell("pow square mul", square)
    operators.tell("sum mean", summed)
    operators.tell("mm addmm bmm baddbmm convolution native_layer_norm native_batch_norm", double)
