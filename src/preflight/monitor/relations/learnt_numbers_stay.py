"""A number that is to be learnt is there in the next pass, too."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "number.anew"
_PASSES = 2


class LearntNumbersStay(Relation):
    """A loss is not scaled by a parameter that is made anew, with the same value, for each pass.

    A temperature, the weight of a term or a gate is written as ``nn.Parameter(torch.tensor(0.07))`` within the function that
    computes the loss: it gets a gradient, is in no optimizer, and is gone after the pass. What was to be learnt stays what
    it was made with.
    Judged are parameters of one element that no model and no optimizer holds: at one backward pass in the code there is another
    one, of the same value, in two looks in a row after the first. One whose gradient is read after the pass, or given to a hook,
    is a probe, and left alone. Where gradients are asked for by ``autograd.grad`` between, as
    for a penalty, the number may be made for that.
    """

    name = "learnt-numbers-stay"
    needs = frozenset({"backward", "scalar", "autograd.grad", _NAME})
    wakes = frozenset({"backward", f"scalar {_NAME}"})
    repeats = 3
    looks = frozenset({"backward"})
    reads = frozenset({f"scalar {_NAME}"})
    whole = False
    severity = "warning"
    priority = 8
    cause = "the parameter is made where the loss is computed"
    advice = "make it once, as an attribute of a module or beside the model, and hand it to the optimizer"

    def __init__(self) -> None:
        self._rows: dict[str, tuple[float | None, int]] = {}  # by place: the last value, and in how many looks it came

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        found: dict[str, float | None] = {one.object: one.value for one in window.numbers if one.name == _NAME}
        for place, value in found.items():
            last, rows = self._rows.get(place, (None, 0))
            asked = bool(window.named("autograd.grad"))
            self._rows[place] = value, 0 if asked or value is None else rows + 1 if value == last else 1
        if not passes and not found:
            return
        wrong = [place for place in found if self._rows[place][1] >= _PASSES]
        seen = [f"another one of the value {self._rows[place][0]:g} in each pass" for place in wrong]
        yield Example(
            (),
            not wrong,
            {},
            variables=("Parameter", *wrong) if wrong else (),
            expected="a parameter that is kept and stepped" if wrong else None,
            seen=seen[0] if wrong else None,
            call=passes[-1] if passes else None,
            detail=f"A parameter of one number in the loss at {wrong[0]} is made anew for each pass" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(2.66, None, None)
        yield _run(2.66, 2.61, 2.58, 2.55)  # a copy of one that is learnt, as an inner loop makes
        yield _run(1.0, 1.0, 1.0, 1.0, asked=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(None, 2.66, 2.66)


def _run(*values: float | None, asked: bool = False) -> list[Window]:
    mini = Mini({"model.weight": {}})
    found = []
    for value in values:
        rows = [("scalar", _NAME, "train.py:9", value)] if value is not None else []
        found.append(mini.window(*rows, *(["autograd.grad"] if asked else []), "backward", "step optimizer0:SGD"))
    return found
