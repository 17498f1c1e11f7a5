"""Closures that an optimizer's step is given, and when in a step the gradients are there that it uses.

Most optimizers call the closure once, before they change anything: such a step is one that follows a backward pass, and
is told as that. One that evaluates several times computes its gradients within the step, and is told from its beginning.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .plain import Outside, impossible, simple
from .recorder import Recorder

_COMPARED = 8  # parameters that are compared at the first step, to see whether it writes before it evaluates
_NUMBERS = 64  # of each
_MANY = 4096  # tensors whose counts of writes are compared

Given = tuple[tuple[Any, ...], dict[str, Any]]


class Awaited:
    """A closure that tells when it was called and when it has returned, and otherwise is what it was.

    Attributes:
        evaluations: How often it was called.
        untouched: Whether no parameter had been written to when it was first called.
    """

    def __init__(self, closure: Any, begins: Callable[[], bool], ends: Callable[[bool], None]) -> None:
        self.evaluations = 0
        self.untouched = False
        self._closure = closure
        self._begins = begins
        self._ends = ends

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate it; an exception is the program's own and goes through."""
        first = not self.evaluations
        self.evaluations += 1
        if first:
            self.untouched = self._begins()
        try:
            value = self._closure(*args, **kwargs)
        except BaseException:
            if first:
                self._ends(False)
            raise
        if first:
            self._ends(True)
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._closure, name)


class Closures:
    """Which optimizers call their closure once and first, as far as their steps have shown.

    Attributes:
        awaited: The closures of steps whose gradients are not there yet, by the optimizer's ``id``.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.awaited: dict[int, Awaited] = {}
        self._recorder = recorder
        self._once: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def waits(self, optimizer: Any) -> bool:
        """Whether a step of an optimizer is to be told from the end of its closure on."""
        if isinstance(optimizer, self._recorder.torch.optim.LBFGS):
            return False  # made to evaluate several times
        return self._once.get(optimizer, True)

    def given(
        self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ends: Callable[[bool], None]
    ) -> Given:
        """The arguments of a step with its closure watched."""
        before = _Marks(self._recorder.torch, optimizer, optimizer not in self._once)
        awaited = Awaited(closure_of(args, kwargs), lambda: self._untouched(before), ends)
        self.awaited[id(optimizer)] = awaited
        if "closure" in kwargs:
            return args, {**kwargs, "closure": awaited}
        return (args[0], awaited, *args[2:]), kwargs

    def _untouched(self, before: _Marks) -> bool:
        same = False
        with self._recorder.work("closure"):
            same = before.same()
        return same

    def ended(self, optimizer: Any) -> bool:
        """Take in how a step has used its closure; whether it was called once, before anything was changed."""
        awaited = self.awaited.pop(id(optimizer), None)
        if awaited is None:
            return False
        once = awaited.evaluations == 1 and awaited.untouched
        self._once[optimizer] = once
        return once


class _Marks:
    """How often the parameters of an optimizer were written to; at its first step also some of their numbers."""

    def __init__(self, torch: Any, optimizer: Any, closely: bool) -> None:
        self._torch = torch
        self._held = [one for group in optimizer.param_groups for one in group["params"]][:_MANY]
        self._versions = [one._version for one in self._held]
        self._copies = self._sample() if closely else []

    def same(self) -> bool:
        """Whether they are as they were; what is written to ``.data`` is not counted, and seen in the numbers alone."""
        if [one._version for one in self._held] != self._versions:
            return False
        now = self._sample() if self._copies else []
        with Outside(self._torch):
            return all(self._torch.equal(one, other) for one, other in zip(self._copies, now, strict=False))

    def _sample(self) -> list[Any]:
        if impossible(self._torch):
            return []
        with Outside(self._torch):
            chosen = [one for one in self._held[:_COMPARED] if simple(one) and one.is_contiguous()]
            return [one.detach().view(-1)[:_NUMBERS].clone() for one in chosen]


def closure_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The closure that a step was given, None without one; the first argument is the optimizer."""
    return kwargs.get("closure") or (args[1] if len(args) > 1 else None)
