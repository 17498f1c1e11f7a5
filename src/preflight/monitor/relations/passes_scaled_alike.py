"""Of the backward passes that one scaled step takes, all are scaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_IN_A_ROW = 2


class PassesScaledAlike(Relation):
    """Every loss whose gradients a scaled step takes went through the scaler.

    ``scaler.step`` divides all gradients by the scale. Those of a loss that was not multiplied by it, because a second
    loss has a backward pass of its own, are thousands of times too small then and count for nothing. So are all of them
    where what the scaler gave back is not what goes backward.
    Judged where all steps go through the scaler: two of them in a row, each after more backward passes than losses were
    scaled, and at least one was, or after passes that brought gradients to none of what was scaled. Losses that are scaled
    as a list are not judged.
    """

    name = "passes-scaled-alike"
    midway = True
    category = "numerical"
    needs = frozenset({"scaler.scale", "scaler.step", "backward", "step"})
    wakes = frozenset({"scaler.scale", "scaler.step", "backward", "step"})
    repeats = 3
    looks = frozenset({"scaler.scale", "scaler.step", "backward", "step"})
    whole = False
    priority = 17
    cause = "a second loss has a backward pass of its own, and was not handed to scaler.scale"
    advice = "write scaler.scale(loss).backward() for each loss, or add the losses up before"

    def __init__(self) -> None:
        self._passes: list[Call] = []
        self._scaled = 0
        self._rows = 0
        self._asked = -1  # the number of the last scaler.step, within which the step itself is made
        self._beside = False  # whether an optimizer steps beside the scaler

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "backward":
                self._passes.append(call)
            elif call.name == "scaler.scale":
                self._scaled += 1
            elif call.name == "step":
                self._beside = self._beside or call.q > self._asked
                self._new()
            elif call.name == "scaler.step":
                yield from self._judge(call)
                self._asked = call.e
                self._new()

    def _new(self) -> None:
        self._passes.clear()
        self._scaled = 0

    def _judge(self, call: Call) -> Iterator[Example]:
        if self._beside or not self._passes or not self._scaled or optimizer_number(call) < 0:
            return
        told = call.args or {}
        lost = bool(told.get("scaled")) and not told.get("reached")
        bare = len(self._passes) - self._scaled
        self._rows = self._rows + 1 if bare > 0 or lost else 0
        wrong = self._rows >= _IN_A_ROW
        yield Example(
            (),
            not wrong,
            {},
            variables=("scaler.scale", "backward") if wrong else (),
            expected="a scaled loss for each backward pass",
            seen=_seen(len(self._passes), self._scaled, lost) if wrong else None,
            call=self._passes[-1],
            detail="A backward pass goes from a loss that was not scaled, and its gradients are divided by the scale"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("scaler.scale", "backward", "scaler.scale", "backward", "scaler.step optimizer0:SGD")
        yield _run("scaler.scale", "backward", "scaler.step optimizer0:SGD", "backward", "step optimizer1:SGD")
        yield _run("scaler.scale", "backward", _stepped(reached=1))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("scaler.scale", "backward", "backward", "scaler.step optimizer0:SGD")
        yield _run("scaler.scale", "backward", _stepped(reached=0))


def _seen(passes: int, scaled: int, lost: bool) -> str:
    if lost:
        return "no gradients came to what the scaler gave back"
    return f"{counted(passes, 'backward pass', 'backward passes')}, {scaled} scaled"


def _stepped(reached: int) -> tuple[str, dict[str, Any]]:
    return "scaler.step optimizer0:SGD", {"args": {"scaled": 1, "reached": reached}}


def _run(*rows: str | tuple[str, dict[str, Any]]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(*rows) for _ in range(3)]
