"""What is in a window, in words: by them it is known which relations have something to see in it."""

from __future__ import annotations

from typing import Any

from preflight.monitor.window import Window

DETAILS = frozenset({"alike", "carried"})
"""What a forward pass tells in detailed iterations alone: a sign of the window, and no part of its form."""
_MOST_KNOWN = 512


def signs_of(window: Window) -> frozenset[str]:
    """The signs of a window.

    Names of calls; ``alike`` and ``carried`` where a forward pass tells of its samples, or of a state that came with them;
    ``scalar`` and ``scalar NAME``; ``WHAT at MOMENT`` of a state, and ``exact WHAT at MOMENT`` of one with
    fingerprints; ``batch`` of a loader, ``input`` of a model; ``tensor``; ``memory``; ``variable``; ``note KIND``; and ``gradients of
    a step``, ``parameters before a step`` and ``parameters after a step`` where these are known.
    The steps of optimizers must have been found before.
    """
    if window.signs is None:
        found = set(window.names())
        for call in window.named("forward"):
            if call.args:
                found.update(DETAILS & call.args.keys())
        if window.numbers:
            found.add("scalar")
            found.update([_SCALAR[one.name] for one in window.numbers])
        for state in window.states:
            found.update(_STATE[state.what, state.moment, state.level == "exact" or state.bits is not None])
        if window.batches:
            found.update(["input" if one.loader.startswith("forward:") else "batch" for one in window.batches])
        if window.tensors:
            found.add("tensor")
        if window.memory:
            found.add("memory")
        if window.changed:
            found.add("variable")
        if window.notes:
            found.update([f"note {kind}" for kind in window.notes])
        for step in window.steps or ():
            found.update(step.signs)
        window.signs = frozenset(found)
    return window.signs


def kind_of(window: Window) -> Any:
    """What decides over the signs of a window besides its form (see forms.py) and its steps: where it is the same, they are."""
    return len(window.calls) - len(window.plain), bool(window.memory)


class Signs:
    """Signs by what decides over them, so that windows that have the same ones share them."""

    def __init__(self) -> None:
        self._known: dict[Any, frozenset[str]] = {}

    def share(self, window: Window, form: int) -> frozenset[str]:
        """The signs of a window with a form."""
        steps = window.steps or ()
        around = tuple([(one.gradients is None, one.before is None, one.after is None) for one in steps])
        key = form, kind_of(window), around
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = signs_of(window)
        window.signs = known
        return known


class _Scalars(dict[str, str]):
    """The sign of a number by its name."""

    def __missing__(self, name: str) -> str:
        self[name] = word = f"scalar {name}"
        return word


class _States(dict[tuple[str, str, bool], tuple[str, ...]]):
    """The signs of a state by what it is of, its moment, and whether it has fingerprints."""

    def __missing__(self, key: tuple[str, str, bool]) -> tuple[str, ...]:
        what, moment, exact = key
        word = f"{what} at {moment}"
        self[key] = words = (word, f"exact {word}") if exact else (word,)
        return words


_SCALAR, _STATE = _Scalars(), _States()
