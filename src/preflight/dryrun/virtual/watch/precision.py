"""Watches the precision in which products and losses of training forwards are computed, under autocast and outside."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.watch.operators import Operators

_PRODUCTS = "mm addmm bmm baddbmm convolution"
_ATTENTION = (
    "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_fused_attention_overrideable"
)
_LOSSES = (
    "nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div l1_loss"
)


def install(operators: Operators) -> Precision:
    """Watch from now on."""
    watched = Precision(operators)
    operators.tell(f"{_PRODUCTS} {_ATTENTION}", watched.product)
    operators.tell(_LOSSES, watched.loss)
    return watched


class Precision:
    """Counts, by module, line and type, where a graph is recorded.

    Args:
        operators: Tells of the operators.
    """

    def __init__(self, operators: Operators) -> None:
        self.progress = operators.seen.progress
        self._rows: dict[tuple[str, str, str, str, str], list[int]] = {}
        self._regions: list[bool] = []
        self._watch_regions()

    def product(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """A product of matrices, a convolution, or attention has run."""
        if not torch.is_grad_enabled():
            return
        if name.startswith("_scaled"):
            count = 2 * args[0].numel() * int(args[1].shape[-2])
        elif name == "convolution":
            table = args[0] if args[6] else result  # a transposed one spreads its input
            count = int(table.numel() * args[1].numel() // args[1].shape[0])
        else:
            first = args[1] if name in ("addmm", "baddbmm") else args[0]
            count = int(result.numel() * first.shape[-1])
        self._count("product", args[1] if name in ("addmm", "baddbmm") else args[0], count)

    def loss(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """A loss was computed."""
        if torch.is_grad_enabled():
            self._count("loss", args[0], 0)

    def summary(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        names = ("what", "module", "line", "dtype", "autocast")
        return [
            {**dict(zip(names, key, strict=True)), "calls": calls, "multiplications": count}
            for key, (calls, count) in self._rows.items()
        ]

    def _count(self, what: str, source: Any, count: int) -> None:
        dtype = str(source.dtype).removeprefix("torch.")
        key = (what, self.progress.module, self.progress.line(), dtype, self._state())
        row = self._rows.setdefault(key, [0, 0])
        row[0] += 1
        row[1] += count

    def _state(self) -> str:
        """Return ``on``; ``off`` inside a region that switches it off within one that has it on; or nothing."""
        if self._regions and not self._regions[-1] and any(self._regions):
            return "off"
        on = self._regions[-1] if self._regions else torch.is_autocast_enabled("cuda")
        return "on" if on else ""

    def _watch_regions(self) -> None:
        region = torch.amp.autocast_mode.autocast
        enter, leave, regions = region.__enter__, region.__exit__, self._regions

        def entered(self: Any) -> Any:
            result = enter(self)
            if self.device == "cuda":
                regions.append(bool(self._enabled))
            return result

        def left(self: Any, *args: Any) -> Any:
            if self.device == "cuda" and regions:
                regions.pop()
            return leave(self, *args)

        region.__enter__, region.__exit__ = entered, left
