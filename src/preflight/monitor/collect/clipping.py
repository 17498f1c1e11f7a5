"""Gradient clipping: the limit, what was measured, and over which parameters."""

from __future__ import annotations

import sys
import time
from typing import Any

from .backward import read_later
from .patching import Patches
from .recorder import Entry, Recorder
from .variables import Variables


class Clipping:
    """Watches ``clip_grad_norm_`` and ``clip_grad_value_``."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place, under both names by which they are reached."""
        module = sys.modules.get("torch.nn.utils.clip_grad")
        utils = self.recorder.torch.nn.utils
        if module is None:
            return
        for word, before, after in (
            ("clip_grad_norm_", self._before_norm, self._after_norm),
            ("clip_grad_value_", self._before_value, None),
        ):
            patches.around(module, word, before, after)
            if hasattr(utils, word):
                patches.replace(utils, word, getattr(module, word))

    def _covered(self, parameters: Any) -> dict[str, Any]:
        """Which parameters are clipped: how many, of which optimizers; a generator is left untouched."""
        torch = self.recorder.torch
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        if not isinstance(parameters, (list, tuple)):
            return {}
        seen = [self.variables.of(one) for one in parameters]
        return {
            "parameters": len(parameters),
            "optimizers": sorted({one.optimizer for one in seen if one is not None}),
        }

    def _before_norm(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        limit = kwargs.get("max_norm", args[1] if len(args) > 1 else None)
        seen = {"max_norm": _plain(limit), **self._covered(kwargs.get("parameters", args[0] if args else None))}
        return self.recorder.enter("clip_grad_norm", "", seen)

    def _after_norm(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        recorder = self.recorder
        if entry is None:
            return
        recorder.leave(entry, None, type(error).__name__ if error else None)
        if error is None and isinstance(value, recorder.torch.Tensor):
            number, iteration, step = recorder.number(), recorder.iteration, recorder.step
            now, place = time.monotonic_ns(), entry.place or ""
            recorder.later(
                read_later(value),
                lambda values: [("scalar", (number, now, iteration, step, "grad_norm", place, values[0]))],
            )

    def _before_value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        limit = kwargs.get("clip_value", args[1] if len(args) > 1 else None)
        seen = {"clip_value": _plain(limit), **self._covered(kwargs.get("parameters", args[0] if args else None))}
        return self.recorder.enter("clip_grad_value", "", seen)


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
