"""What is loaded into an optimizer holds the moments that lie in the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.counters import told_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window


class MomentsAreLoaded(Relation):
    """An optimizer that is given a state after a checkpoint was read is given the moments in it.

    A fresh optimizer has no moments before its first step. Where its own ``state_dict()`` is taken as the form that a
    checkpoint is read into, there is no place for them, and they are dropped: what ``load_state_dict`` is handed holds the
    settings of the groups and nothing else. The same happens where the keys of the state are renamed and none is found.
    The first steps after it go astray, and nothing is said.
    Judged is the state that an optimizer loads after a file was read and before the next step, where every optimizer in
    that file has a state. It is broken where the state that is loaded is empty. Setting an optimizer back to
    how it began, as after a search for a learning rate, reads no such file.
    """

    name = "moments-are-loaded"
    category = "checkpoint"
    needs = frozenset({"load", "load_state_dict", "save", "step"})
    wakes = frozenset({"load", "load_state_dict", "save", "step"})
    repeats = 2
    looks = frozenset({"load", "load_state_dict", "save", "step"})
    reads = frozenset({"load", "load_state_dict", "save"})
    whole = False
    severity = "warning"
    priority = 19
    cause = "the state_dict() of a fresh optimizer was filled in, or keys were renamed so that none was found"
    advice = "hand optimizer.load_state_dict() the whole state as it was saved"

    def __init__(self) -> None:
        self._saved: dict[str, dict[str, Any]] = {}  # by file, the optimizers that this process has put into it
        self._read: dict[str, Any] = {}  # the optimizers of the file that was read since the last step

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "step":
                self._read = {}
            elif call.name == "save":
                self._saved[_file(call)] = told_of(call).get("optimizers") or {}
            elif call.name == "load":
                found = told_of(call).get("optimizers") or self._saved.get(_file(call)) or {}
                self._read = found or self._read  # the parts of a checkpoint may lie in files of their own
            elif call.name == "load_state_dict" and "state" in (call.args or {}) and optimizer_number(call) >= 0:
                yield self._judge(call)

    def kept(self) -> object:
        return tuple(self._saved), tuple(self._read)

    def _judge(self, call: Call) -> Example:
        states = [one["states"] for one in self._read.values()]
        wrong = bool(states) and all(states) and not (call.args or {})["state"]
        return Example(
            (),
            not wrong,
            {"optimizer": call.object.split(":")[-1]},
            variables=(call.object, *self._read) if wrong else (),
            expected="the moments that lie in the checkpoint" if wrong else None,
            seen=f"an empty state, where the file holds that of {max(states)} parameters" if wrong else None,
            call=call,
            detail=f"{call.object} loads a state without moments, and the checkpoint holds them" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_resumed(state=4)]
        yield [_resumed(states=0)]  # saved before the first step, or of a kind that keeps none
        yield [_resumed("step optimizer0:Adam")]  # set back later on
        yield _of_its_own(state=4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_resumed()]
        yield _of_its_own()


def _file(call: Call) -> str:
    return str((call.args or {}).get("file") or "")


def _loaded(state: int) -> tuple[str, dict[str, Any]]:
    return "load_state_dict optimizer1:Adam", {"args": {"state": state, "rates": [0.01]}}


def _resumed(*between: str, state: int = 0, states: int = 4) -> Window:
    """A process that reads a checkpoint of another one and loads a state."""
    found = {"optimizers": {"optimizer": {"states": states, "held": 4}}}
    read = ("load", {"args": {"file": "last.pt"}, "result": found})
    return Mini({"model.weight": {}}).window(read, *between, _loaded(state), "backward", "step optimizer1:Adam")


def _of_its_own(state: int = 0) -> list[Window]:
    """A process that reads the checkpoint that it has written."""
    mini = Mini({"model.weight": {}})
    told = {"file": "last.pt", "optimizers": {"optimizer": {"states": 4, "held": 4}}}
    read = ("load", {"args": {"file": "last.pt"}})
    return [
        mini.window("backward", "step optimizer0:Adam", ("save", {"args": told})),
        mini.window(read, _loaded(state), "backward", "step optimizer1:Adam"),
    ]
