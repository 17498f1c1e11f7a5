"""The scale of the losses goes on from step to step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Number, Window

_ONCE = 2.0
"""How far one update may raise a scale, as a factor, where the scaler is as torch makes it."""
_FAR = 4.0
"""How much further a scale must rise at once so that no other growth explains it."""


class ScaleGoesOn(Relation):
    """The scale of the losses is not back at its first value all at once.

    A ``GradScaler`` finds its scale in hundreds of steps: it halves it where a step is skipped, and doubles it where
    none was for long. One that is made anew, as inside the function that trains one epoch, begins with the first scale
    again: steps are skipped until it has come down, or small gradients are lost until it has grown.
    Judged are iterations with one step and one update. It is broken where the scale is the very first one and lower than
    before although no step was skipped, or eight times what it was before. A program that limits the scale by hand
    updates twice, and nothing is said of it, nor after a state was loaded.
    """

    name = "scale-goes-on"
    needs = frozenset({"scaler.step", "scaler.update", "scalar"})
    wakes = frozenset({"scalar scale", "scaler.step", "scaler.update", "load", "load_state_dict"})
    severity = "warning"
    priority = 22
    cause = "the scaler is made anew with each epoch"
    advice = "make the scaler once, before the first epoch, and hand it to the function that trains one"

    def __init__(self) -> None:
        self._first: dict[str, float] = {}  # by optimizer: the scale after its first step
        self._last: dict[str, float] = {}
        self._skipped: set[str] = set()

    def see(self, window: Window) -> Iterator[Example]:
        if window.named("load") or window.named("load_state_dict"):
            self._last.clear()
        updates = len(window.named("scaler.update"))
        steps = window.named("scaler.step")
        rows: list[Call | Number] = [*steps, *(one for one in window.numbers if one.name == "scale")]
        name = ""
        for row in sorted(rows, key=ORDER):
            if isinstance(row, Call):
                name = row.object
                if (row.result or {}).get("skipped") is not False:
                    self._skipped.update(self._last, {name})  # one scaler may scale for several optimizers
            elif name and row.value:
                if len(steps) == updates == 1:
                    yield self._judge(name, row.value, steps[0])
                else:
                    self._last.pop(name, None)
                self._skipped.discard(name)

    def _judge(self, name: str, scale: float, call: Call) -> Example:
        last, first = self._last.get(name), self._first.setdefault(name, scale)
        self._last[name] = scale
        fell = last is not None and scale < last and name not in self._skipped
        rose = last is not None and scale >= last * _ONCE * _FAR
        wrong = (fell or rose) and scale == first
        return Example(
            (),
            not wrong,
            {"optimizer": name.split(":")[-1]},
            variables=("scaler", name) if wrong else (),
            expected=f"a scale near {last:g}" if wrong else None,
            seen=f"{scale:g}, as after the first step" if wrong else None,
            call=call,
            detail="The scale of the losses begins anew in the middle of the training" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(512.0, 512.0, 1024.0, 1024.0)
        yield _run(512.0, 1024.0, -512.0)
        yield _run(512.0, -256.0, -128.0, 256.0, 512.0)
        yield [*_run(512.0, 1024.0), *_run(1024.0, 512.0, updates=2)]

        mini = Mini({"model.weight": {}, "critic.weight": {"optimizer": 1}})
        parts = ((0, 512.0, False), (1, 1024.0, False), (0, 1024.0, False), (1, 512.0, True), (0, 512.0, False))
        yield [_stepped(mini, *part) for part in parts]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(512.0, 1024.0, 1024.0, 512.0)
        yield _run(512.0, -256.0, -128.0, -64.0, 512.0)


def _run(*scales: float, updates: int = 1) -> list[Window]:
    """Steps after which the scale is one of these; the step before a negative one was skipped."""
    mini = Mini({"model.weight": {}})
    return [_stepped(mini, 0, abs(scale), scale < 0, updates) for scale in scales]


def _stepped(mini: Mini, optimizer: int, scale: float, skipped: bool, updates: int = 1) -> Window:
    step = (f"scaler.step optimizer{optimizer}:SGD", {"result": {"skipped": skipped}})
    rows = ("forward model", "scaler.scale", "backward", step, *["scaler.update"] * updates)
    return mini.window(*rows, ("scalar", "scale", "train.py:9", scale))
