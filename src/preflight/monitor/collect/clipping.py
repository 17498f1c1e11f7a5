"""Gradient clipping: the limit, what was measured, and over which parameters."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any

from .backward import read_later
from .entry import Entry
from .patching import Patches, unseen_by_warnings, watched
from .places import from_program
from .recorder import Recorder
from .variables import Variables

_leaf, _gradient = attrgetter("is_leaf"), attrgetter("grad")


class Clipping:
    """Watches ``clip_grad_norm_``, ``clip_grads_with_norm_`` and ``clip_grad_value_``."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self._noted: dict[str, Any] | None = None  # what was taken of an iterator

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place, under both names by which they are reached."""
        module = sys.modules.get("torch.nn.utils.clip_grad")
        utils = self.recorder.torch.nn.utils
        if module is None:
            return
        for owner, word, before, after in (
            (module, "clip_grad_norm_", self._before_norm, self._after_norm),
            (module, "clip_grad_value_", self._before_value, self._after_value),
            # The first one calls this one by a name of its own, so that nothing is told twice.
            (utils, "clip_grads_with_norm_", self._before_given, self._after_value),
        ):
            original = getattr(owner, word, None)
            if original is None or getattr(original, "_preflight_watched", False):
                continue
            patches.replace(owner, word, watched(self.recorder, self._listening(original), before, after))
            if owner is not utils:
                patches.alias(owner, word, utils)

    def _listening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with an iterator of parameters replaced by a list of them, which are counted when it has ended.

        One that yields nothing is handed on itself: what is said of an exhausted generator is said of generators only.
        """
        compiling = self.recorder.torch.compiler.is_compiling

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("parameters", args[0] if args else None)
            if compiling() or not isinstance(given, Iterator) or not self.recorder.active():
                return original(*args, **kwargs)
            noted = list(given)
            lent = noted or given
            try:
                if "parameters" in kwargs:
                    return original(*args, **{**kwargs, "parameters": lent})
                return original(lent, *args[1:], **kwargs)
            finally:
                with self.recorder.work("clipping"):
                    self._noted = self._counts(noted)

        unseen_by_warnings(call)  # type: ignore[arg-type]
        return call

    def _covered(self, parameters: Any) -> dict[str, Any]:
        """Which parameters are clipped: how many, how many with gradients, and how many of which optimizers."""
        if isinstance(parameters, self.recorder.torch.Tensor):
            parameters = [parameters]
        if not isinstance(parameters, (list, tuple)):
            return {}
        return self._counts(list(parameters))

    def _counts(self, clipped: list[Any]) -> dict[str, Any]:
        """How many are clipped, how many of them have a gradient, and of which optimizers they are."""
        if not self.recorder.trainers.alone():
            return {}
        owners = self.variables.owners(clipped)
        optimizers = sorted(owners)
        return {
            "parameters": len(clipped),
            "gradients": _with_gradients(clipped),
            "optimizers": optimizers,
            "of": [owners[one] for one in optimizers],
        }

    def _before_norm(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        limit = kwargs.get("max_norm", args[1] if len(args) > 1 else None)
        kind = kwargs.get("norm_type", args[2] if len(args) > 2 else 2.0)
        return self._before("clip_grad_norm", {"max_norm": _plain(limit), "norm_type": _plain(kind)}, args, kwargs)

    def _before_given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        """A clipping by a norm that the program has measured itself: of which kind is not known."""
        limit = kwargs.get("max_norm", args[1] if len(args) > 1 else None)
        total = kwargs.get("total_norm", args[2] if len(args) > 2 else None)
        entry = self._before(
            "clip_grad_norm", {"max_norm": _plain(limit), "norm_type": None, "given": True}, args, kwargs
        )
        if entry is not None and isinstance(total, self.recorder.torch.Tensor) and total.numel() == 1:
            self._measured(entry, total)
        return entry

    def _before_value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        limit = kwargs.get("clip_value", args[1] if len(args) > 1 else None)
        return self._before("clip_grad_value", {"clip_value": _plain(limit)}, args, kwargs)

    def _before(self, name: str, seen: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self._noted = None
        seen.update(self._covered(kwargs.get("parameters", args[0] if args else None)))
        return self.recorder.enter(name, "", seen)

    def _after_value(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        noted, self._noted = self._noted, None
        if noted is not None and entry.args is not None:
            entry.args.update(noted)
        self.recorder.leave(entry, None, error)

    def _after_norm(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        recorder = self.recorder
        self._after_value(entry, value, error)
        if entry is not None and error is None and isinstance(value, recorder.torch.Tensor):
            self._measured(entry, value)

    def _measured(self, entry: Entry, value: Any) -> None:
        """Tell the norm that is clipped by, once it is known."""
        recorder = self.recorder
        number, iteration, step = recorder.number(), recorder.iteration, recorder.step
        now, place = time.monotonic_ns(), from_program(entry.place)
        recorder.later(
            read_later(value),
            lambda values: [("scalar", (number, now, iteration, step, "grad_norm", place, values[0]))],
        )


def _with_gradients(clipped: list[Any]) -> int:
    """How many tensors have a gradient; one that is no leaf would warn where it is asked."""
    try:
        if all(map(_leaf, clipped)):  # asked without a loop of the interpreter's, as nearly always they all are
            return sum(map(is_not, map(_gradient, clipped), repeat(None)))
    except AttributeError:
        pass  # something else than a tensor among them
    return sum(getattr(one, "is_leaf", False) and one.grad is not None for one in clipped)


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
