"""A run that goes on counting has its optimizer's state back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.counters import numbered_alike, risen, same_series, told_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window


class MomentsResume(Relation):
    """A process that resumes weights and goes on counting restores the optimizer that lies beside them.

    ``optimizer.load_state_dict`` is forgotten, or stands in a branch that is not taken: the moments of Adam, or the
    momentum, begin at nought again, and the first steps go astray. Where a schedule is restored, ``optimizer-resumes``
    tells at once; without one, nothing but the file says that this is the same run.
    Judged at the first checkpoint that a process writes under the name of one that it had read before its first step, in
    the same folder and apart from the number of an epoch or step, where that one held an optimizer with a state, weights
    were loaded, and no optimizer and no schedule was. The number of a fold or of a task makes it another one.
    It is broken where a counter of the file has gone on from what was read, in the same stage, the optimizer in it is of the
    same settings, rates and parameters as the one that was read, and every optimizer had an empty state at its first step.
    """

    name = "moments-resume"
    category = "checkpoint"
    needs = frozenset({"load", "load_state_dict", "save", "step"})
    wakes = frozenset({"load", "load_state_dict", "save", "step"})
    repeats = 2
    looks = frozenset({"load", "load_state_dict", "save", "step"})
    reads = frozenset({"load", "load_state_dict", "save"})
    whole = False
    severity = "warning"
    priority = 20
    cause = "the optimizer's state was saved, and optimizer.load_state_dict() was not called"
    advice = "load the optimizer's state together with the weights"

    def __init__(self) -> None:
        self._read: Call | None = None
        self._weights = False
        self._brought = False  # whether an optimizer or a schedule was restored: it is not forgotten, or told elsewhere
        self._firsts: dict[int, Call] = {}  # of each optimizer, after the file was read

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "step" and self._read is not None:
                if "states" in (call.args or {}):
                    self._firsts.setdefault(optimizer_number(call), call)
            elif call.name == "load" and call.s == 0:
                self._load(call)
            elif call.name == "load_state_dict":
                told = call.args or {}
                if optimizer_number(call) >= 0 or "scheduler" in told:
                    self._brought = True
                elif call.s == 0 and told.get("matched"):
                    self._weights = self._read is not None
            elif call.name == "save" and call.s > 0:
                yield from self._save(call)

    def kept(self) -> object:
        return self._read, self._weights, self._brought, len(self._firsts)

    def _load(self, call: Call) -> None:
        optimizers = told_of(call).get("optimizers") or {}
        if optimizers:
            worn = any(one["states"] for one in optimizers.values())
            self._read, self._weights = call if worn else None, False

    def _save(self, call: Call) -> Iterator[Example]:
        read = self._read
        if read is None or not self._firsts or not told_of(call).get("optimizers"):
            return
        judged = self._weights and not self._brought and same_series(read, call) and numbered_alike(read, call)
        self._read = None if judged else read
        higher = risen(read, call) if judged else []
        old, new = told_of(read)["optimizers"], told_of(call)["optimizers"]
        alike = [key for key, one in old.items() if one["states"] and new.get(key) == one]
        empty = not any((one.args or {}).get("states") for one in self._firsts.values())
        wrong = bool(higher) and len(alike) == len(old) and empty
        first = next(iter(self._firsts.values()))
        counts = told_of(call).get("counts") or {}
        yield Example(
            (),
            not wrong,
            {},
            variables=(first.object, *alike) if wrong else (),
            expected="an optimizer with the state that lay in the checkpoint" if wrong else None,
            seen=f"an empty state at the first step, and {higher[0]} {counts[higher[0]]} at the next save"
            if wrong
            else None,
            call=first,
            detail=f"{first.object} begins anew in a run that goes on" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("load_state_dict optimizer0:Adam", {"args": {"state": 4}}), states=4)
        yield _run(counts=(5, 0))  # fine tuning, from the weights of another run
        yield _run(file="tuned.pt")
        yield _run(counts=(5, 30), read="first/last.pt", file="second/last.pt")
        yield _run(read="fold_0.pt", file="fold_1.pt")
        yield _run(stages=("easy", "hard"))
        yield _run(rate=0.001)  # it begins anew on purpose, at another rate
        yield _run(states=4)  # brought back in another way

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()


def _run(
    *restored: Any,
    states: int = 0,
    counts: tuple[int, int] = (5, 6),
    read: str = "epoch_5.pt",
    file: str = "epoch_6.pt",
    rate: float = 0.01,
    stages: tuple[str, str] = ("one", "one"),
) -> list[Window]:
    """A process that reads a checkpoint, loads the weights in it, steps, and writes a checkpoint."""
    mini = Mini({"model.weight": {}})
    there, saved = (
        {"optimizer": {"states": 4, "held": 4, "settings": ["betas", "lr"], "rates": [one]}} for one in (0.01, rate)
    )
    found = {"counts": {"epoch": counts[0], "seed": 1}, "optimizers": there, "stages": {"phase": stages[0]}}
    rows: list[Any] = [("load", {"args": {"file": read}, "result": found})]
    rows += [("load_state_dict model", {"args": {"matched": 4}}), *restored, "backward"]
    step = ("step optimizer0:Adam", {"args": {"states": states}})
    told = {
        "file": file,
        "counts": {"epoch": counts[1], "seed": 1},
        "optimizers": saved,
        "stages": {"phase": stages[1]},
    }
    return [mini.window(*rows, step), mini.window("backward", step, ("save", {"args": told}))]
