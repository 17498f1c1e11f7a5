"""Watches what is still held when an optimizer steps, though the backward pass no longer needs it."""

from __future__ import annotations

from typing import Any

from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual.memory import ledger as words
from preflight.dryrun.virtual.memory.ledger import Ledger
from preflight.dryrun.virtual.watch.observations import Observations

_SHARE, _LEAST = 0.02, 16 << 20
"""Tensors below this share of the peak, or below so many bytes, are not worth a word."""


def install(seen: Observations, ledger: Ledger) -> None:
    """Watch from now on."""

    def look(optimizer: Any, args: Any, kwargs: Any) -> None:
        least = max(_LEAST, int(_SHARE * ledger.peak))
        for holding in list(ledger.live.values()):
            made_forward = holding.phase == "forward" and holding.category in ("", words.ACTIVATION)
            if made_forward and holding.held >= least:
                seen.note(
                    "alive at step", line=holding.line, bytes=holding.held, operator=holding.operator,
                    within=holding.module, age=seen.progress.step - holding.step,
                )  # fmt: skip

    optimizers.register_optimizer_step_pre_hook(look)
