"""The scale of losses goes on where the optimizer does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.counters import told_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, Number, Window

_ONCE = 4.0
"""How far one update may bring a scale, either way: it is doubled, or halved, where nobody has said otherwise."""


class ScaleResumes(Relation):
    """A run that is resumed scales its losses as the checkpoint says that it did.

    A ``GradScaler`` finds its scale in hundreds of steps. Where its state lies in the file and is not loaded, it begins with
    the first one again: steps are skipped until the scale has come down, or small gradients are lost until it has grown.
    Judged at the first scale that is seen after a process has read a file with a scale in it and restored an optimizer with
    its state, both before its first step. It is broken where the two lie further apart than one update may bring them.
    A scaler that is made with the scale of the file goes on as well as one whose state is loaded.
    """

    name = "scale-resumes"
    category = "checkpoint"
    needs = frozenset({"load", "load_state_dict", "scaler.update", "scalar"})
    wakes = frozenset({"load", "load_state_dict", "scalar scale"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "the scaler's state was saved, and scaler.load_state_dict() was not called"
    advice = "restore the scaler, too: scaler.load_state_dict(checkpoint[...])"

    def __init__(self) -> None:
        self._read: Call | None = None
        self._resumed: Call | None = None
        self._begun = False

    def see(self, window: Window) -> Iterator[Example]:
        if self._begun:
            return
        rows: list[Call | Number] = [*window.named("load"), *window.named("load_state_dict")]
        rows += [number for number in window.numbers if number.name == "scale" and number.value is not None]
        for row in sorted(rows, key=ORDER):
            if isinstance(row, Number):
                self._begun = True
                yield self._judge(row, window)
                return
            if row.s == 0 and row.name == "load":
                self._read = row if told_of(row).keys() & {"scale", "optimizers"} else self._read
            elif row.s == 0 and optimizer_number(row) >= 0 and (row.args or {}).get("state"):
                self._resumed = self._read

    def _judge(self, number: Number, window: Window) -> Example:
        saved, now = told_of(self._resumed).get("scale") if self._resumed is not None else None, number.value or 0.0
        wrong = saved is not None and not saved / _ONCE <= now <= saved * _ONCE
        updates = window.named("scaler.update")
        return Example(
            (),
            not wrong,
            {},
            variables=("scaler",) if wrong else (),
            expected=f"a scale near {saved:g}, which lay in the checkpoint" if wrong else None,
            seen=f"{now:g} after its first update" if wrong else None,
            call=updates[0] if updates else None,
            detail="The scale of the losses begins anew although the optimizer was restored" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(512.0, 512.0)
        yield _run(512.0, 256.0)  # the first step was skipped
        yield _run(512.0, 65536.0, state=0)  # another run begins with these weights
        yield _run(None, 65536.0)
        yield _run(512.0, 65536.0, then=("load", {"result": {"optimizers": {}}}))  # restored from another file

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(512.0, 65536.0)
        yield _run(2.0**24, 65536.0)


def _run(saved: float | None, scale: float, state: int = 4, then: Any = "forward model") -> list[Window]:
    """A process that reads a checkpoint with one scale, goes on to something else, and begins with another scale."""
    mini = Mini({"model.weight": {}})
    read = ("load", {"result": {"scale": saved} if saved is not None else {}})
    back: list[Any] = [
        read,
        then,
        "load_state_dict model",
        ("load_state_dict optimizer0:Adam", {"args": {"state": state}}),
    ]
    scaled = ("forward model", "scaler.scale", "backward", "scaler.step optimizer0:Adam", "scaler.update")
    return [mini.window(*back, *scaled, ("scalar", "scale", "train.py:9", scale))]
