"""What is loaded into an optimizer holds the moments that lie in the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    Judged is the state that an optimizer loads after files were read and before the next step, where every optimizer in
    these files has a state. It is broken where the state that is loaded is empty, into an optimizer that this process has
    not stepped: one that has is set back to how it began, as for a restart from earlier weights.
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
        self._read: dict[
            tuple[str, str], Any
        ] = {}  # by file and name, the optimizers that were read since the last step
        self._stepped: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "step":
                self._read = {}
                self._stepped.add(optimizer_number(call))
            elif call.name == "save":
                self._saved[_file(call)] = told_of(call).get("optimizers") or {}
            elif call.name == "load":
                # The parts of a checkpoint may lie in files of their own.
                found = told_of(call).get("optimizers") or self._saved.get(_file(call)) or {}
                self._read.update(((_file(call), name), one) for name, one in found.items())
            elif call.name == "load_state_dict" and "state" in (call.args or {}) and optimizer_number(call) >= 0:
                yield self._judge(call)

    def kept(self) -> object:
        return tuple(self._saved), tuple(self._read), tuple(self._stepped)

    def _judge(self, call: Call) -> Example:
        states = [one["states"] for one in self._read.values()]
        fresh = optimizer_number(call) not in self._stepped
        wrong = fresh and bool(states) and all(states) and not (call.args or {})["state"]
        return Example(
            (),
            not wrong,
            {"optimizer": call.object.split(":")[-1]},
            variables=(call.object, *(name for _, name in self._read)) if wrong else (),
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
        yield _of_its_own(stepped=True)  # set back beside earlier weights
        plain = {
            "optimizers": {"optimizer": {"states": 0, "held": 2}}
        }  # one of a kind that keeps none, in its own file
        yield [_resumed(before=[("load", {"args": {"file": "plain.pt"}, "result": plain})])]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_resumed()]
        yield _of_its_own()


def _file(call: Call) -> str:
    return str((call.args or {}).get("file") or "")


def _loaded(state: int) -> tuple[str, dict[str, Any]]:
    return "load_state_dict optimizer1:Adam", {"args": {"state": state, "rates": [0.01]}}


def _resumed(
    *between: str, state: int = 0, states: int = 4, before: Sequence[tuple[str, dict[str, Any]]] = ()
) -> Window:
    """A process that reads a checkpoint of another one and loads a state."""
    found = {"optimizers": {"optimizer": {"states": states, "held": 4}}}
    read = ("load", {"args": {"file": "last.pt"}, "result": found})
    return Mini({"model.weight": {}}).window(
        *before, read, *between, _loaded(state), "backward", "step optimizer1:Adam"
    )


def _of_its_own(state: int = 0, stepped: bool = False) -> list[Window]:
    """A process that reads the checkpoint that it has written, with the same optimizer or another one."""
    mini = Mini({"model.weight": {}})
    told = {"file": "last.pt", "optimizers": {"optimizer": {"states": 4, "held": 4}}}
    read = ("load", {"args": {"file": "last.pt"}})
    return [
        mini.window("backward", f"step optimizer{int(stepped)}:Adam", ("save", {"args": told})),
        mini.window(read, _loaded(state), "backward", "step optimizer1:Adam"),
    ]
