"""Learning-rate schedules: each call of a scheduler's step, and the rates it leaves."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import weakref
from types import FrameType
from typing import Any

from .entry import Entry
from .groups import MOST_GROUPS, number_of, rehearsed
from .optimizers import Optimizers
from .patching import Patches
from .places import here, user_frame
from .recorder import Recorder
from .scope import owner_of

_MOST_MOMENTS = 8
_MOST_PLACES = 64
_MOST_MADE = 64


class Schedules:
    """Watches every class of ``torch.optim.lr_scheduler`` that has a step of its own."""

    def __init__(self, recorder: Recorder, optimizers: Optimizers) -> None:
        self.recorder = recorder
        self.optimizers = optimizers
        self._open: list[Any] = []
        self._made: list[tuple[weakref.ref[Any], str, str | None]] = []
        self._making: list[Any] = []  # those whose construction is under way
        self._first: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        """The rates that each schedule left as it was made."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._next = itertools.count()
        self._called: dict[tuple[str, int], str] = {}
        self._resting: dict[str, list[tuple[str, str]]] = {}

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        module = sys.modules.get("torch.optim.lr_scheduler")
        for kind in list(vars(module).values()) if module else ():
            if isinstance(kind, type) and "step" in vars(kind):
                patches.around(kind, "step", self._before, self._after)
            if isinstance(kind, type) and "load_state_dict" in vars(kind):
                patches.around(kind, "load_state_dict", self._loading)
        for word in ("LRScheduler", "ReduceLROnPlateau"):  # the second one makes itself
            kind = getattr(module, word, None)
            if kind is not None and "__init__" in vars(kind):
                patches.around(kind, "__init__", self._begins, self._begun)

    def _begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        """A schedule is being made: it is told of once its optimizer is known, which may be used only later."""
        self._making.append(args[0])
        optimizer = kwargs.get("optimizer", args[1] if len(args) > 1 else None)
        if optimizer is not None and len(self._made) < _MOST_MADE and not self._open:
            self._made.append((weakref.ref(optimizer), type(args[0]).__name__, here()))
        return None

    def _begun(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        """A schedule was made, and has set the rates with which it begins."""
        scheduler = self._making.pop() if self._making else None
        optimizer = getattr(scheduler, "optimizer", None)
        if error is None and optimizer is not None:
            self._first[scheduler] = _rates(optimizer)

    def boundary(self) -> None:
        """An iteration ends: tell of schedules that were made for optimizers that are known by now."""
        if not self._made:
            return
        made, self._made = self._made, []
        for held, kind, place in made:
            optimizer = held()
            if optimizer is None:
                continue
            if self.optimizers.variables.index_of(optimizer) < 0:
                self._made.append((held, kind, place))
                continue
            name = self.optimizers.name(optimizer)
            self.recorder.event("scheduler.new", kind, {"optimizer": name}, place)
            resting = self._resting.setdefault(f"scheduler of {name}", [])
            if len(resting) < _MOST_MADE:
                resting.append((kind, place or ""))

    def resting(self) -> dict[str, list[tuple[str, str]]]:
        """The kinds and the places of the schedules that were made for each optimizer of which none has stepped."""
        return self._resting

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        scheduler = args[0]
        optimizer = getattr(scheduler, "optimizer", None)
        if self._open or optimizer is None or not hasattr(scheduler, "last_epoch"):
            return None  # a scheduler inside another
        if "_step_count" not in vars(scheduler) and type(scheduler).__name__ != "ReduceLROnPlateau":
            return None  # it is being made
        if _in_making(scheduler):
            return None
        number, name = self._number(scheduler), self.optimizers.name(optimizer)
        self._resting.pop(f"scheduler of {name}", None)
        if rehearsed(optimizer):
            return None
        seen: dict[str, Any] = {"index": number, "optimizer": name, "by": _caller()}
        seen.update({"count": scheduler.last_epoch, "before": _rates(optimizer), **_horizon(scheduler)})
        if scheduler.last_epoch == 0:
            seen["base"] = [number_of(one) for one in getattr(scheduler, "base_lrs", ())][:MOST_GROUPS]
            if scheduler in self._first:
                seen["made"] = self._first[scheduler]
        moments = _moments(scheduler)
        if moments:
            seen["moments"] = moments
        if len(args) > 1 or kwargs:
            seen["given"] = True  # an epoch, or what a plateau is judged by
            measure = kwargs.get("metrics", args[1] if len(args) > 1 else None)
            if type(scheduler).__name__ == "ReduceLROnPlateau":
                if isinstance(measure, (int, float)):
                    seen["measure"] = float(measure)
                seen["mode"] = scheduler.mode
                called = self._measured()
                if called:
                    seen["called"] = called
        entry = self.recorder.enter("scheduler.step", type(scheduler).__name__, seen)
        self._open.append(scheduler)  # not before: nothing takes it away again where something of this fails
        return entry

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
        self.recorder.leave(entry, result, error)

    def _measured(self) -> str:
        """What the person's code calls the measure that it hands over; nothing where it is no plain name."""
        frame = user_frame(sys._getframe(2))
        if frame is None:
            return ""
        at = (frame.f_code.co_filename, frame.f_lineno)
        if at not in self._called and len(self._called) < _MOST_PLACES:
            self._called[at] = measured(linecache.getline(*at))
        return self._called.get(at, "")

    def _number(self, scheduler: Any) -> int:
        """The number of a scheduler, by the order in which they were used."""
        number = self._numbers.get(scheduler)
        if number is None:
            number = self._numbers[scheduler] = next(self._next)  # of one that is gone no other has the number
        return number

    def _loading(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        scheduler = args[0]
        optimizer = getattr(scheduler, "optimizer", None)
        if self._open or optimizer is None:
            return None
        given = kwargs.get("state_dict", args[1] if len(args) > 1 else None)
        count = given.get("last_epoch") if isinstance(given, dict) else None
        seen = {
            "scheduler": self._number(scheduler),
            "optimizer": self.optimizers.name(optimizer),
            "count": count if isinstance(count, int) else None,
            "before": scheduler.last_epoch if hasattr(scheduler, "last_epoch") else None,
        }
        return self.recorder.enter("load_state_dict", type(scheduler).__name__, seen)


def measured(line: str) -> str:
    """The name that a line ``scheduler.step(name)`` gives a measure, looking through ``item()`` and means; else nothing."""
    try:
        calls = [one for one in ast.walk(ast.parse(line.strip())) if isinstance(one, ast.Call)]
    except (SyntaxError, ValueError):
        return ""
    steps = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "step"]
    given = [*steps[0].args, *(word.value for word in steps[0].keywords if word.arg == "metrics")] if steps else []
    return _name(given[0]) if len(steps) == 1 and given else ""


def _name(given: ast.expr) -> str:
    """The name of a value: of a variable, an attribute, or what is looked up by a text."""
    if isinstance(given, ast.Name):
        return given.id
    if isinstance(given, ast.Attribute):
        return given.attr
    if (
        isinstance(given, ast.Subscript)
        and isinstance(given.slice, ast.Constant)
        and isinstance(given.slice.value, str)
    ):
        return given.slice.value
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div):
        return _name(given.left)
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in ("item", "mean"):
        return _name(given.args[0] if given.args else given.func.value)
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id in ("float", "sum"):
        return _name(given.args[0]) if given.args else ""
    return ""


def _caller() -> str:
    """The package whose code called the scheduler: it may step it in a way of its own."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            break
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in ("torch", "contextlib", __name__.split(".")[0]):
            return package
        frame = frame.f_back
    return ""


def _horizon(scheduler: Any) -> dict[str, int]:
    """After how many steps a scheduler is at its end, for those that say so."""
    for word in ("total_steps", "T_max"):
        value = vars(scheduler).get(word)
        if isinstance(value, int):
            return {"horizon": value}
    return _of_lambdas(scheduler)


def _of_lambdas(scheduler: Any) -> dict[str, int]:
    """After how many steps the function is at its end that a scheduler takes its rates from, where it was told so.

    The schedules of transformers are functions with the number of training steps as an argument that is filled in.
    """
    for one in vars(scheduler).get("lr_lambdas") or ():
        value = (getattr(one, "keywords", None) or {}).get("num_training_steps")
        if isinstance(value, int):
            return {"total": value}
    return {}


def _moments(scheduler: Any) -> list[float]:
    """After which steps a scheduler changes the rate, for those of which it is told when they are made; the first few."""
    held = vars(scheduler)
    found = [held["step_size"]] if "step_size" in held else [*held.get("milestones", ())][:_MOST_MOMENTS]
    return found if all(isinstance(one, (int, float)) for one in found) else []


def _in_making(scheduler: Any) -> bool:
    """Whether a step is the first one, which a scheduler takes itself while it is made."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_name in ("__init__", "_initial_step") and owner_of(frame) is scheduler:
            return True
        frame = frame.f_back
    return False


def _rates(optimizer: Any) -> list[float]:
    """The learning rates of the first groups, as far as they are plain numbers."""
    groups = optimizer.param_groups[:16]
    return [float(group["lr"]) for group in groups if isinstance(group.get("lr"), (int, float))]
