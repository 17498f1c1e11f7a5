"""Optimizers of one checkpoint come back together."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window


class OptimizersResumeTogether(Relation):
    """Where weights and the state of one optimizer are loaded, the optimizer of other weights of that load has its state.

    A checkpoint that knows of one optimizer lacks the moments of the other: that of a discriminator, of a head that is
    trained beside, of parameters with a rule of their own. The run goes on, and for these weights it begins anew.
    Judged at the second step of an optimizer whose parameters were all loaded, in the same load as an optimizer's state
    with nothing stepping in between: if its kind keeps a state, it must have had one at its first step.
    """

    name = "optimizers-resume-together"
    category = "checkpoint"
    needs = frozenset({"load_state_dict", "step"})
    wakes = frozenset({"load_state_dict", "step"})
    repeats = 3
    looks = frozenset({"load_state_dict", "step"})
    whole = False
    severity = "warning"
    priority = 20
    cause = "the checkpoint holds the state of one optimizer only, or only one is restored"
    advice = "save and load the state of every optimizer"

    def __init__(self) -> None:
        self._models: list[str] = []  # modules that were loaded since the last step
        self._resumed: list[str] = []  # modules that came back with the state of an optimizer
        self._by: Call | None = None
        self._loaded: set[int] = set()
        self._first: dict[int, Call] = {}
        self._judged: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "load_state_dict":
                self._load(call)
            elif call.name == "step" and "states" in (call.args or {}):
                yield from self._step(call, window)
                self._models = []
            elif call.name == "step":
                self._models = []

    def _load(self, call: Call) -> None:
        told = call.args or {}
        number = optimizer_number(call)
        if "scheduler" in told:
            return
        if number < 0:
            if told.get("matched"):
                self._models.append(call.object)
            return
        self._loaded.add(number)
        if told.get("state") and self._models and number not in self._first:
            self._resumed = [*self._models]
            self._by = call

    def _step(self, call: Call, window: Window) -> Iterator[Example]:
        number = optimizer_number(call)
        first = self._first.setdefault(number, call)
        if first is call or number in self._judged or self._by is None or self._by.q > first.q:
            return
        self._judged.add(number)
        held = [one.name for one in window.run.variables.values() if one.optimizer == number]
        if not held or not all(any(name.startswith(f"{root}.") for root in self._resumed) for name in held):
            return
        if not (call.args or {}).get("states"):
            return  # a kind that keeps none
        empty = number not in self._loaded and not (first.args or {}).get("states")
        yield Example(
            (),
            not empty,
            {"optimizer": call.object.split(":")[-1]},
            variables=(first.object, *held[:8]) if empty else (),
            expected=f"a state at the first step, as {self._by.object} has one",
            seen="an empty state" if empty else None,
            call=first,
            detail=f"{self._by.object} goes on with its state, and {first.object} starts empty" if empty else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _resumed(states=2)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(states=0)


def _resumed(states: int) -> list[Window]:
    mini = Mini({"model.body": {}, "model.head": {"optimizer": 1}})
    loads = [
        ("load_state_dict model", {"args": {"matched": 2}}),
        ("load_state_dict optimizer0:Adam", {"args": {"state": 2, "rates": [0.1]}}),
    ]

    def steps(count: int) -> list[tuple[str, dict[str, object]]]:
        counts = ((0, 2), (1, count))
        return [(f"step optimizer{one}:Adam", {"args": {"closure": False, "states": held}}) for one, held in counts]

    return [mini.window(*loads, "backward", *steps(states)), mini.window("backward", *steps(2))]
