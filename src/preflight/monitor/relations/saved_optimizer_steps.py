"""The optimizer that is saved is the one that steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.counters import same_series, told_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window


class SavedOptimizerSteps(Relation):
    """The optimizer whose state goes into a checkpoint is the one that trains the weights.

    An optimizer is made anew after it was handed to whatever writes checkpoints, or a wrapper steps and what it was
    made of is saved: the file holds an optimizer that never stepped, and a run that is resumed from it begins with moments
    of nought.
    Judged when an optimizer steps after two saves under one name, numbers aside. It is broken where the same part of both
    is an optimizer without a state, the one that steps has also stepped between the two, keeps a state for as many
    parameters as that part holds, and no file so far has an optimizer with a state for so many. One that is made anew in
    every round and saved before it steps is another one after the second save.
    """

    name = "saved-optimizer-steps"
    category = "checkpoint"
    needs = frozenset({"save", "step"})
    wakes = frozenset({"save", "step"})
    repeats = 3
    looks = frozenset({"save", "step"})
    reads = frozenset({"save"})
    whole = False
    severity = "warning"
    priority = 19
    cause = "the optimizer that is saved was made before, or beside, the one that steps"
    advice = "save the state_dict() of the optimizer whose step() trains the weights"

    def __init__(self) -> None:
        self._saved: list[Call] = []  # the last save with an optimizer, and that before it
        self._known: set[int] = set()  # for how many parameters those had a state that were saved so far
        self._keeps: dict[int, int] = {}  # by optimizer that stepped since the last such save: parameters with a state
        self._between: dict[int, int] = {}  # the same, between the last two
        self._judged = False

    def see(self, window: Window) -> Iterator[Example]:
        if self._judged:
            return
        for call in window.plain:
            if call.name == "save" and told_of(call).get("optimizers"):
                self._saved = [*self._saved, call][-2:]
                self._between, self._keeps = self._keeps, {}
                self._known.update(one["states"] for one in told_of(call)["optimizers"].values())
            elif call.name == "step" and self._saved and "states" in (call.args or {}):
                number = optimizer_number(call)
                if number not in self._keeps:
                    yield from self._judge(number, call)
                self._keeps[number] = (call.args or {})["states"]

    def kept(self) -> object:
        return len(self._saved), sorted(self._keeps), sorted(self._between), sorted(self._known), self._judged

    def _judge(self, number: int, call: Call) -> Iterator[Example]:
        keeps = (call.args or {})["states"]
        if len(self._saved) < 2:
            return
        first, second = (_idle(one) for one in self._saved)
        parts = [key for key, count in second.items() if first.get(key) == count == keeps]
        stayed = self._between.get(number) == keeps and same_series(*self._saved)
        wrong = bool(parts and keeps) and stayed and keeps not in self._known
        self._judged = wrong
        yield Example(
            (),
            not wrong,
            {"optimizer": call.object.split(":")[-1]},
            variables=(call.object, *parts) if wrong else (),
            expected=f"the state of {call.object} in the checkpoint" if wrong else None,
            seen=f"{parts[0] or 'an optimizer'} of {keeps} parameters that never stepped" if wrong else None,
            call=self._saved[-1],
            detail=f"What is saved is an optimizer that never stepped, while {call.object} trains" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((0, 4))
        yield _run((0, 0), steps=0)  # a kind that keeps nothing
        yield _run((0, 0), held=2)  # of another network, which waits for its turn
        yield _run((0, 0), other=4)  # the next one, which waits beside the one that is at work
        yield _run((0, 0), anew=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((0, 0))


def _idle(call: Call) -> dict[str, int]:
    """The parts of a file that are optimizers without a state, and how many parameters they hold."""
    found = told_of(call).get("optimizers") or {}
    return {key: one["held"] for key, one in found.items() if not one["states"] and one["held"]}


def _run(
    saved: tuple[int, ...], held: int = 4, steps: int = 4, other: int | None = None, anew: bool = False
) -> list[Window]:
    """Steps of an optimizer between saves in which one has so many states, and after them."""
    mini = Mini({"model.weight": {}})
    windows = []
    for number, states in enumerate((*saved, None)):
        name = f"step optimizer{number if anew else 0}:Adam"
        step = (name, {"args": {"states": steps}})
        parts: dict[str, Any] = {"optimizer": {"states": states, "held": held}}
        if other is not None:
            parts["first"] = {"states": other, "held": other}
        save = [("save", {"args": {"file": f"epoch_{number}.pt", "optimizers": parts}})] if states is not None else []
        windows.append(mini.window("backward", step, "backward", step, *save))
    return windows
