"""Learning-rate schedules: each call of a scheduler's step, and the rates it leaves."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from .optimizers import Optimizers
from .patching import Patches
from .recorder import Entry, Recorder


class Schedules:
    """Watches every class of ``torch.optim.lr_scheduler`` that has a step of its own."""

    def __init__(self, recorder: Recorder, optimizers: Optimizers) -> None:
        self.recorder = recorder
        self.optimizers = optimizers
        self._open: list[Any] = []

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        module = sys.modules.get("torch.optim.lr_scheduler")
        for kind in list(vars(module).values()) if module else ():
            if isinstance(kind, type) and "step" in vars(kind):
                patches.around(kind, "step", self._before, self._after)

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        scheduler = args[0]
        optimizer = getattr(scheduler, "optimizer", None)
        if self._open or optimizer is None or not hasattr(scheduler, "last_epoch"):
            return None  # a scheduler inside another
        if "_step_count" not in vars(scheduler) and type(scheduler).__name__ != "ReduceLROnPlateau":
            return None  # it is being made
        if _in_making(scheduler):
            return None
        self._open.append(scheduler)
        seen = {"count": scheduler.last_epoch, "before": _rates(optimizer)}
        return self.recorder.enter("scheduler.step", type(scheduler).__name__, seen)

    def _after(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        scheduler = self._open.pop()
        optimizer = scheduler.optimizer
        result = {
            "count": scheduler.last_epoch,
            "rates": _rates(optimizer),
            "optimizer": self.optimizers.name(optimizer),
        }
        self.recorder.leave(entry, result, type(error).__name__ if error else None)


def _in_making(scheduler: Any) -> bool:
    """Whether a step is the first one, which a scheduler takes itself while it is made."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_name in ("__init__", "_initial_step") and frame.f_locals.get("self") is scheduler:
            return True
        frame = frame.f_back
    return False


def _rates(optimizer: Any) -> list[float]:
    """The learning rates of the first groups, as far as they are plain numbers."""
    groups = optimizer.param_groups[:16]
    return [float(group["lr"]) for group in groups if isinstance(group.get("lr"), (int, float))]
