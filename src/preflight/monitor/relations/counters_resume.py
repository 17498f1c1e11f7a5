"""The counter of a run that is resumed goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.counters import fallen, is_counter, takes_place, told_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, Window

_FAR = 2
"""The least that a counter must have come to: a first epoch that is begun again is numbered as it was."""


class CountersResume(Relation):
    """A process that resumes from a checkpoint goes on counting where the checkpoint stopped.

    Weights and optimizer come back, but ``start_epoch`` is not taken from the file: the loop begins at nought again.
    The run trains for too long, the orders of its first epochs come again, a schedule that is worked out from the epoch
    begins anew, and the checkpoint now says that less was done than was.
    Judged at the first checkpoint that a process writes after it had read one, before its first step, and had restored an
    optimizer with its state; where it writes under the name of what it read, in the same folder and numbers aside. It is
    broken where an ``epoch``, ``step``, ``iteration`` or ``update`` is half of what it was or less, no other whole number in
    the file, or in its name, is higher, and no ``stage``, ``phase`` or ``task`` in it is another one. Where the epoch is the
    same, a count within it may begin anew: an epoch that was broken off is gone through once more.
    """

    name = "counters-resume"
    category = "checkpoint"
    needs = frozenset({"load", "load_state_dict", "save", "step"})
    wakes = frozenset({"load", "load_state_dict", "save"})
    whole = False
    severity = "warning"
    priority = 21
    cause = "the epoch or step that was saved is not read, so that the loop begins at its first number again"
    advice = "begin the loop where the checkpoint stopped: start_epoch = checkpoint['epoch'] + 1"

    def __init__(self) -> None:
        self._read: Call | None = None
        self._resumed: Call | None = None

    def see(self, window: Window) -> Iterator[Example]:
        calls = [*window.named("load"), *window.named("load_state_dict"), *window.named("save")]
        for call in sorted(calls, key=ORDER):
            if call.name == "save":
                yield from self._save(call)
            elif call.s == 0 and call.name == "load":
                if told_of(call).get("optimizers"):
                    self._read = call if _goes_on(call) else None
            elif call.s == 0 and optimizer_number(call) >= 0 and (call.args or {}).get("state"):
                self._resumed = self._read

    def _save(self, call: Call) -> Iterator[Example]:
        read = self._read
        if read is None or call.s == 0 or not told_of(call).get("optimizers"):
            return
        judged = self._resumed is read and takes_place(read, call)
        lower = fallen(read, call) if judged else []
        self._read = None if judged else read
        old, new = told_of(read)["counts"], told_of(call).get("counts") or {}
        yield Example(
            (),
            not lower,
            {},
            variables=tuple(lower),
            expected=", ".join(f"{key} after {old[key]}" for key in lower) or None,
            seen=", ".join(f"{key} {new[key]}" for key in lower) or None,
            call=call,
            detail=f"The run was resumed, and its {lower[0]} begins anew" if lower else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run({"epoch": 5}, {"epoch": 6})
        yield _run({"epoch": 5, "step": 40}, {"epoch": 6, "step": 3})  # counted within the epoch
        yield _run({"epoch": 5, "task": 0}, {"epoch": 0, "task": 1})  # another stage
        yield _run({"epoch": 5, "iter": 40}, {"epoch": 5, "iter": 10})  # the epoch that was broken off
        yield _run({"step": 1040}, {"step": 1010})  # and so where only steps are counted
        yield _run({"epoch": 5}, {"epoch": 0}, stages=("first", "second"))
        yield _run({"epoch": 5}, {"epoch": 0}, state=0)  # weights alone: it is no run that goes on
        yield _run({"epoch": 5}, {"epoch": 0}, file="tuned.pt")
        yield _run({"epoch": 5, "best_epoch": 4}, {"epoch": 5, "best_epoch": 0})
        yield _run({"step": 5}, {"step": 1}, read="task1.pt", file="task2.pt")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run({"epoch": 5}, {"epoch": 0})
        yield _run({"global_step": 600, "seed": 3}, {"global_step": 100, "seed": 3})
        yield _run({"step": 600}, {"step": 100}, read="out/step_000600.pt", file="out/step_000100.tmp")


def _goes_on(call: Call) -> bool:
    """Whether a file holds a run that has come somewhere, with an optimizer that has a state."""
    told = told_of(call)
    counted = any(is_counter(key) and count >= _FAR for key, count in (told.get("counts") or {}).items())
    return counted and any(one["states"] for one in (told.get("optimizers") or {}).values())


def _run(
    before: dict[str, int],
    after: dict[str, int],
    state: int = 4,
    read: str = "last.pt",
    file: str = "last.pt",
    stages: tuple[str, str] = ("one", "one"),
) -> list[Window]:
    """A process that reads a checkpoint with these counters, steps, and writes one with those."""
    mini = Mini({"model.weight": {}})
    optimizers = {"optimizer": {"states": 4, "held": 4}}
    held = [
        {"counts": counts, "optimizers": optimizers, "stages": {"phase": stage}}
        for counts, stage in zip((before, after), stages, strict=True)
    ]
    rows: list[Any] = [("load", {"args": {"file": read}, "result": held[0]})]
    rows += ["load_state_dict model", ("load_state_dict optimizer0:Adam", {"args": {"state": state}})]
    rows += ["forward model", "backward", "step optimizer0:Adam"]
    save = ("save", {"args": {"file": file, **held[1]}})
    return [mini.window(*rows), mini.window("backward", "step optimizer0:Adam", save)]
