"""Loss scaling: the scale, what was unscaled, which steps were skipped, and whether gradients came to what was scaled."""

from __future__ import annotations

import sys
from typing import Any

from .backward import read_later
from .entry import Entry
from .optimizers import Optimizers
from .patching import Patches
from .recorder import Recorder

_MOST_SCALED = 64  # losses of one step


class _Scaled:
    """A loss that was scaled; its graph is not held."""

    __slots__ = ("reached",)

    def __init__(self) -> None:
        self.reached = False

    def came(self, gradients: Any) -> None:
        """Gradients have come to it."""
        self.reached = True


class Scaling:
    """Watches ``torch.amp.GradScaler``."""

    def __init__(self, recorder: Recorder, optimizers: Optimizers) -> None:
        self.recorder = recorder
        self.optimizers = optimizers
        self._step = 0
        self._scaled: list[_Scaled] = []  # losses of this step

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        module = sys.modules.get("torch.amp.grad_scaler")
        if module is None:
            return
        scaler = module.GradScaler
        patches.around(scaler, "scale", self._simple("scaler.scale"), self._scaled_one)
        patches.around(scaler, "unscale_", self._of_optimizer("scaler.unscale"))
        patches.around(scaler, "step", self._of_optimizer("scaler.step"), self._stepped)
        patches.around(scaler, "update", self._simple("scaler.update"), self._updated)

    def _simple(self, name: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
            if not args[0].is_enabled():
                return None
            entry = self.recorder.enter(name)
            entry.about = args[0]
            self.recorder.scaled = name == "scaler.scale"
            return entry

        return before

    def _of_optimizer(self, name: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
            if not args[0].is_enabled():
                return None
            optimizer = kwargs.get("optimizer", args[1] if len(args) > 1 else None)
            subject = self.optimizers.name(optimizer)
            seen = None
            if name == "scaler.step":
                self._step = self.recorder.step
                seen = {"scaled": len(self._scaled), "reached": sum(one.reached for one in self._scaled)}
            if self.recorder.detail:
                index = self.optimizers.variables.index_of(optimizer)
                self.optimizers.states.gradients("before_unscale", index, False)
            return self.recorder.enter(name, subject, seen)

        return before

    def _scaled_one(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        """A loss was scaled: notice when gradients come to what the scaler gave back."""
        if entry is None:
            return
        self.recorder.leave(entry, None, error)
        node = getattr(value, "grad_fn", None)
        if node is not None and len(self._scaled) < _MOST_SCALED:
            one = _Scaled()
            node.register_prehook(one.came)
            self._scaled.append(one)

    def _stepped(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        recorder = self.recorder
        index = int(entry.object.split(":")[0].removeprefix("optimizer"))
        skipped = index == recorder.primary and self._step == recorder.step
        recorder.leave(entry, {"skipped": skipped}, error)
        if recorder.primary is None:
            recorder.primary = index
        if index == recorder.primary:
            recorder.stepped = True

    def _updated(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        recorder = self.recorder
        recorder.leave(entry, None, error)
        self._scaled.clear()
        scale = getattr(entry.about, "_scale", None)
        if isinstance(scale, recorder.torch.Tensor):
            head = (recorder.number(), entry.began, recorder.iteration, recorder.step, "scale", entry.place or "")
            recorder.later(read_later(scale), lambda values: [("scalar", (*head, values[0]))])
