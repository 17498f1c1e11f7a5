"""Gradients are clipped by their own norm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.values import total_norm
from preflight.monitor.window import Window

_FAR = 0.05
_IN_A_ROW = 2


class ClippingByOwnNorm(Relation):
    """A norm that the program measures itself and clips by is that of the gradients that it clips.

    ``clip_grads_with_norm_`` takes any number for the norm.
    One that was added up over ranks which all hold the same gradients is too large, and the gradients become too small;
    one of another set of gradients is just as wrong.
    After clipping, the gradients have the limit as their norm where the measured one is above it, and the measured one
    otherwise; where they have neither, two steps in a row, the measured one was not theirs.
    Judged where a rank holds the whole of every gradient: in a process by itself, and in replicas.
    """

    name = "clipping-by-own-norm"
    midway = True
    needs = frozenset({"clip_grad_norm", "step", "state", "scalar"})
    wakes = frozenset({"gradients of a step"})
    repeats = 2
    looks = frozenset({"step", "clip_grad_norm"})
    whole = False
    priority = 22
    cause = "squared norms are added up over ranks that all hold the same gradients, or belong to other parameters"
    advice = "add up norms over ranks only where each holds a part of its own, and measure what is clipped"

    def __init__(self) -> None:
        self._count: dict[int, int] = {}
        self._norms: list[tuple[int, float]] = []

    def quiet(self, window: Window) -> bool:
        """Whether the program clips by no norm of its own."""
        return not any((call.args or {}).get("given") for call in window.named("clip_grad_norm"))

    def slept(self, window: Window, times: int) -> None:
        """Know the last norms."""
        for _ in self.see(window):
            pass

    def see(self, window: Window) -> Iterator[Example]:
        self._norms += [
            (one.q, one.value) for one in window.numbers if one.name == "grad_norm" and one.value is not None
        ]
        del self._norms[:-64]
        for step in steps_of(window):
            clips = step.named("clip_grad_norm")
            if len(clips) != 1 or step.gradients is None or not (clips[0].args or {}).get("given"):
                continue
            clip = clips[0]
            given = clip.args or {}
            limit = given.get("max_norm")
            measured = [value for number, value in self._norms if clip.q < number < step.call.q][:1]
            whole = given.get("of") == [len(step.gradients.ids)] and _whole(step, window)
            if not limit or not measured or not whole or not math.isfinite(measured[0]):
                continue
            used, wanted = total_norm(step.gradients), min(measured[0], limit)
            wrong = abs(used - wanted) > _FAR * wanted
            count = self._count[step.optimizer] = self._count.get(step.optimizer, 0) + 1 if wrong else 0
            told = count >= _IN_A_ROW
            yield Example(
                (),
                not told,
                {"optimizer": step.kind},
                variables=("clip_grads_with_norm_",) if told else (),
                expected=f"a norm of {wanted:.4g} after clipping",
                seen=f"a norm of {used:.4g}" if told else None,
                call=clip,
                detail=f"The norm of {measured[0]:.4g} that is clipped by is not that of the gradients" if told else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(2.0, 1.0), (0.6, 0.6), (4.0, 1.0)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(2.0, 0.71), (3.0, 0.71)])


def _whole(step: Step, window: Window) -> bool:
    """Whether this rank holds the whole of every gradient of a step, and all that there are."""
    assert step.gradients is not None
    known = [window.run.variables.get(ident) for ident in step.gradients.ids]
    if any(one is None or not _plain(one.spread, window) for one in known):
        return False
    return all(norm is not None for norm in step.gradients.norm)


def _plain(spread: dict[str, Any] | None, window: Window) -> bool:
    if spread is None:
        return window.run.world == 1
    return spread.get("kind") == "replicated" and len(spread.get("ranks") or ()) == window.run.world


def _run(steps: list[tuple[float, float]]) -> list[Window]:
    """Steps with the norm that is clipped by, and that of the gradients afterwards; the limit is 1."""
    mini = Mini({"model.weight": {}})
    given = {"max_norm": 1.0, "norm_type": None, "given": True, "parameters": 1, "gradients": 1}
    windows = []
    for measured, used in steps:
        clip = ("clip_grad_norm", {"args": {**given, "optimizers": [0], "of": [1]}})
        rows = (clip, ("scalar", "grad_norm", "train.py:9", measured), ("gradients", {"model.weight": used}))
        windows.append(mini.window("backward", *rows, "step optimizer0:SGD"))
    return windows
