"""Training and evaluation mode, seeds, and the program's own warnings."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from .entry import Entry
from .naming import Names
from .patching import Patches
from .places import is_users
from .recorder import Recorder

_MOST_WARNINGS = 100


class Modes:
    """Watches ``Module.train``, ``torch.manual_seed`` and warnings."""

    def __init__(self, recorder: Recorder, names: Names) -> None:
        self.recorder = recorder
        self.names = names
        self._inside = 0
        self._warned: dict[tuple[str, str, int], int] = {}

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        torch = self.recorder.torch
        patches.around(torch.nn.Module, "train", self._before, self._after)
        patches.around(torch, "manual_seed", self._seeding)
        patches.around(torch, "clear_autocast_cache", self._casts_cleared)
        show = warnings.showwarning

        def showwarning(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **more: Any) -> Any:
            with self.recorder.work("warning"):
                self.warned(message, category, filename, lineno)
            return show(message, category, filename, lineno, *rest, **more)

        patches.replace(warnings, "showwarning", showwarning, lasting=True)

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self._inside += 1
        if self._inside > 1:
            return None
        mode = kwargs.get("mode", args[1] if len(args) > 1 else True)
        name = self.names.root(args[0], sys._getframe(1)) if next(args[0].parameters(), None) is not None else ""
        told: dict[str, Any] = {"training": bool(mode), "user": _by_user(sys._getframe(1))}
        if mode and args[0].training:
            resting = _resting(args[0])
            told.update({"resting": resting} if resting else {})
        return self.recorder.enter("mode", name, told)

    def _after(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self._inside = max(0, self._inside - 1)
        if entry is not None:
            self.recorder.leave(entry, None, error)

    def _casts_cleared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        recorder = self.recorder
        recorder.casts_cleared += 1
        torch = recorder.torch
        if not recorder.casts_used and not recorder.stack() and torch.is_grad_enabled():
            recorder.casts_idle += any(map(torch.is_autocast_enabled, ("cuda", "cpu")))
        recorder.casts_used = False
        return None

    def _seeding(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        seed = kwargs.get("seed", args[0] if args else None)
        frame = sys._getframe(2)
        users = frame is not None and is_users(frame.f_code.co_filename)
        return self.recorder.enter(
            "seed", "torch", {"seed": int(seed) if isinstance(seed, int) else None, "user": users}
        )

    def warned(self, message: Any, category: Any, filename: str, lineno: int) -> None:
        """Note a warning, unless one of its kind was noted of that place."""
        recorder = self.recorder
        key = (getattr(category, "__name__", str(category)), filename, lineno)
        count = self._warned.get(key, 0) + 1
        self._warned[key] = count
        if count == 1 and len(self._warned) <= _MOST_WARNINGS:
            row = (recorder.number(), recorder.iteration, key[0], str(message)[:1000], f"{filename}:{lineno}", count)
            recorder.put("warning", row)


def _resting(model: Any) -> int:
    """How many layers that keep statistics are in evaluation mode, while what they are parts of is in training mode."""
    return sum(
        not layer.training and getattr(layer, "running_mean", None) is not None
        for module in model.modules()
        if module.training
        for layer in module.children()
    )


def _by_user(frame: FrameType | None) -> bool:
    """Whether it was the person's own code that set a mode, and not a library on its way."""
    for _ in range(12):
        if frame is None:
            break
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in ("torch", __name__.split(".")[0]):
            return is_users(frame.f_code.co_filename)
        frame = frame.f_back
    return True
