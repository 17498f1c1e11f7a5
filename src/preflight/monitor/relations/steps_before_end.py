"""A program that trains makes a step before it ends."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.resting import MOMENT, Resting
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, State, Window

_MANY = 20
"""Backward passes whose gradients are cleared unused that are more than a trial of what a pass takes."""
_INPUTS = 8
"""Different inputs that are more than a few that are passed through again and again."""


class StepsBeforeEnd(Relation):
    """A program that clears the gradients of its optimizer for each backward pass makes a step with one before it ends.

    Where ``optimizer.step()`` is missing in a loop that draws its own data, as of an environment or of random samples, nothing
    else shows that the training went on: no loader begins anew, no schedule advances, nothing is evaluated.
    Judged at the end of a program that ended by itself and in which no optimizer ever stepped: broken where ``zero_grad`` of
    an optimizer threw away the gradients of twenty backward passes and more, whose inputs differed, and everything that it
    holds was the same to the last bit when it was looked at in the later half of them.
    The program's own text, all of it known, must have no line that could step it, nor one that reads gradients, sets hooks,
    or measures times or memory: what such a program is after may be the passes themselves.
    Where there is such a sign, ``steps-come`` speaks of it.
    Models that were asked in evaluation mode, whose gradients are read, are left out, and so are gradients that the model
    clears. A measurement of what a pass takes repeats its inputs.
    """

    name = "steps-before-end"
    needs = frozenset({"backward", "zero_grad", "forward", "state", "batch", "never"})
    wakes = frozenset(
        {"step", "scaler.step", "backward", "zero_grad", "forward", "input", f"parameter at {MOMENT}", "note end"}
        | {"fetch", "scheduler.step", "save", "never"}
    )
    whole = False
    severity = "warning"
    priority = 7
    cause = "optimizer.step() is missing"
    advice = "call optimizer.step() after the backward pass"

    def __init__(self) -> None:
        self._stepped = False
        self._elsewhere = False  # what steps-come tells a training by that went on
        self._training = True
        self._open = False  # a pass of training whose gradients were not cleared
        self._cleared: dict[int, int] = {}  # by optimizer: passes whose gradients its own zero_grad threw away
        self._looked: dict[int, int] = {}  # and how many they were when it was last looked at
        self._resting = Resting()
        self._inputs: set[tuple[int | None, ...]] = set()
        self._last: Call | None = None
        self._stepless: set[str] = set()  # what no line of the program steps, nor does one measure it

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("never"):
            if not (call.args or {}).get("measures", True):
                self._stepless.update((call.args or {})["step"])
        if not self._stepped:
            self._stepped = bool(window.named("step") or window.named("scaler.step"))
        if not self._stepped:
            self._follow(window)
        for note in window.notes.get("end", ()):
            yield self._judge(note.get("how") == "exit", window)

    def _follow(self, window: Window) -> None:
        rows: list[Call | State] = [one for one in window.states if one.moment == MOMENT]
        for name in ("forward", "backward", "zero_grad"):
            rows += window.named(name)
        self._elsewhere = self._elsewhere or any(window.named(name) for name in ("fetch", "scheduler.step", "save"))
        for row in sorted(rows, key=ORDER):
            self._take(row)
        for batch in window.batches:
            if batch.loader.startswith("forward:") and len(self._inputs) < _MANY:
                self._inputs.add(tuple(batch.bits))

    def _take(self, row: Call | State) -> None:
        if isinstance(row, State):
            index = self._resting.see(row)
            self._looked[index] = self._cleared.get(index, 0)
        elif row.name == "forward":
            self._training = bool((row.args or {}).get("training", True))
            self._elsewhere = self._elsewhere or (not self._training and "nograd" in row.context)
        elif row.name == "backward":
            self._open, self._last = self._training, row
        else:
            index = optimizer_number(row)
            if self._open and index >= 0:
                self._cleared[index] = self._cleared.get(index, 0) + 1
            self._open = False

    def _judge(self, ended: bool, window: Window) -> Example:
        differ = ended and not self._stepped and not self._elsewhere and len(self._inputs) >= _INPUTS
        index = next((index for index in self._cleared if self._never(index)), -1) if differ else -1
        if index < 0:
            return Example((), True, {})
        held = [one.name for one in window.run.variables.values() if one.optimizer == index]
        return Example(
            (),
            False,
            {},
            variables=tuple(held),
            expected="a step with the gradients of a backward pass",
            seen=f"gradients of {self._cleared[index]} passes that were cleared, and no step",
            call=self._last,
            detail="The program ended and no optimizer has made a step",
        )

    def _never(self, index: int) -> bool:
        """Whether an optimizer that nothing steps cleared the gradients of many passes, and rested late among them."""
        count = self._cleared[index]
        if not any(name.startswith(f"optimizer{index}:") for name in self._stepless):
            return False
        return count >= _MANY and 2 * self._looked.get(index, 0) >= count and self._resting.rests(index)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(30, last=("step optimizer0:SGD",))
        yield _run(12)
        yield _run(30, how="signal")
        yield _run(30, inputs=4)  # the same ones again and again
        yield _run(30, moves=1)  # what it holds is moved by hand
        yield _run(30, clears="zero_grad model")
        yield _run(30, training=False)
        yield _run(30, last=("fetch loader0",))
        yield _run(30, measures=True)
        yield _run(30, never=())

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(30)


def _run(
    passes: int,
    last: tuple[object, ...] = (),
    how: str = "exit",
    inputs: int = 30,
    moves: int = 0,
    clears: str = "zero_grad optimizer0:SGD",
    training: bool = True,
    never: tuple[str, ...] = ("optimizer0:SGD",),
    measures: bool = False,
) -> list[Window]:
    """Passes over so many different inputs, whose gradients are cleared, and an end."""
    mini = Mini({"model.weight": {}})
    windows = []
    for number in range(passes):
        look: tuple[object, ...] = (MOMENT, {"model.weight": (1.0, 7 + moves * number)}, {"optimizer": 0})
        forward = ("forward model", {"args": {"training": training}})
        given = ("batch", {"loader": "forward:model", "bits": [number % inputs]})
        windows.append(mini.window(look, clears, given, forward, "backward"))
    text = ("never", {"args": {"step": list(never), "backward": [], "measures": measures}})
    return [*windows, mini.window(*last, text, ("note", "end", {"how": how}))]
