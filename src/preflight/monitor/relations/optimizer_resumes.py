"""The optimizer goes on where the schedule does."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window


class OptimizerResumes(Relation):
    """Where a schedule is restored in the middle of its course, the optimizer has its state back too.

    Judged at the first step of an optimizer after the state of its scheduler was loaded with a count above zero: the
    optimizer, if its kind keeps a state for its parameters, must have one. One that was given its state back, before or
    after, is left alone: where every step so far was skipped for its scale, there was none to give.
    It needs no earlier optimizer in the same process, as ``state-continues`` does, and so speaks of a new process that
    resumes.
    """

    name = "optimizer-resumes"
    category = "checkpoint"
    needs = frozenset({"load_state_dict", "step"})
    wakes = frozenset({"load_state_dict", "step"})
    repeats = 3
    looks = frozenset({"load_state_dict", "step"})
    whole = False
    severity = "warning"
    priority = 19
    cause = "the checkpoint lacks the optimizer's state, or it is not loaded"
    advice = "load the optimizer's state together with the weights and the schedule"

    def __init__(self) -> None:
        self._restored: dict[int, Call] = {}
        self._first: dict[int, Call] = {}
        self._given: set[int] = set()  # optimizers that were given a state

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            told = call.args or {}
            if call.name == "load_state_dict" and "scheduler" in told:
                number = optimizer_number(call._replace(object=told.get("optimizer") or ""))
                if (told.get("count") or 0) > 0 and number not in self._first and number not in self._given:
                    self._restored[number] = call
            elif call.name == "load_state_dict":
                self._given.add(optimizer_number(call))
                self._restored.pop(optimizer_number(call), None)
            elif call.name == "step" and "states" in told:
                number = optimizer_number(call)
                first = self._first.get(number)
                if first is None:
                    self._first[number] = call
                elif number in self._restored:
                    # Only now it is known whether this kind of optimizer keeps a state.
                    yield from self._judge(first, call, self._restored.pop(number))

    @staticmethod
    def _judge(first: Call, second: Call, load: Call) -> Iterator[Example]:
        if not (second.args or {}).get("states"):
            return
        empty = not (first.args or {}).get("states")
        yield Example(
            (),
            not empty,
            {"optimizer": first.object.split(":")[-1]},
            variables=(first.object, load.object) if empty else (),
            expected="an optimizer with state at the first step after its schedule was restored",
            seen="an empty state" if empty else None,
            call=first,
            detail=f"{load.object} goes on from step {(load.args or {}).get('count')}, and its optimizer starts empty"
            if empty
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _resumed(4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(0)


def _resumed(states: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    load = ("load_state_dict LambdaLR", {"args": {"scheduler": 0, "optimizer": "optimizer0:AdamW", "count": 15}})
    steps = [("step optimizer0:AdamW", {"args": {"closure": False, "states": count}}) for count in (states, 4)]
    return [mini.window(load, "backward", steps[0]), mini.window("backward", steps[1])]
