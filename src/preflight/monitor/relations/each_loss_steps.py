"""What each loss teaches is there when the optimizer steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_ENDS = "term.ends"
_ROUNDS = 10
"""Steps in a row, from the first that was looked at: a loss may be left out as long as it pulls the other way."""


class EachLossSteps(Relation):
    """Of several losses of one forward pass, each on its own way back, none is cleared before the step.

    With a ``zero_grad()`` between two backward passes the step uses the second loss alone, and what only the first one
    teaches never learns.
    Judged are backward passes that come one after the other without a forward pass, or a step, in between, by the losses
    of torch that theirs are added up from. It is broken where the gradients of one are cleared before the next, the last
    loss does not hold it, and parameters of the optimizer have no gradient at the step while others have one, in ten
    steps in a row, and never had one before: who measures the gradient of a second loss, and leaves it out where it pulls
    the other way, has steps with it, too. Gradients that are measured before all losses are passed back together, or that
    the program puts together itself, are no violation, nor is an attack on the inputs, which calls the network again.
    """

    name = "each-loss-steps"
    needs = frozenset({"step", "state", "backward", "zero_grad", "forward", "scalar", _ENDS})
    wakes = frozenset({f"scalar {_ENDS}"})
    priority = 9
    cause = "zero_grad() stands between the backward passes of two losses"
    advice = "call zero_grad() once before the first of them, or add the losses and pass the sum back"

    def __init__(self) -> None:
        self._rounds: Counter[int] = Counter()
        self._had: set[int] = set()  # variables that had a gradient at a step

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            passes = step.named("backward")
            if step.gradients is not None:
                self._had.update(
                    ident for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True) if norm
                )
            if step.closure or len(passes) < 2 or step.gradients is None:
                continue
            ends = _ends(passes, window)
            if None in ends:
                continue
            cleared = _cleared(step, passes, ends, window)
            lost = self._without(step, window) if cleared is not None else []
            rounds = self._rounds[step.optimizer] = self._rounds[step.optimizer] + 1 if lost else 0
            wrong = rounds >= _ROUNDS
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=("zero_grad", *lost) if wrong else (),
                expected="a step that uses what each backward pass before it has left" if wrong else None,
                seen=f"the gradients of a loss were cleared, and {counted(len(lost), 'parameter has', 'parameters have')} none"
                if wrong
                else None,
                call=cleared if wrong else step.call,
                detail="The gradients of one loss are cleared before another one is passed back" if wrong else "",
            )

    def _without(self, step: Step, window: Window) -> list[str]:
        """The parameters of a step that never had a gradient, where others have one."""
        state = step.gradients
        if state is None or not any(state.norm):
            return []
        return [window.run.name(ident) for ident in state.ids if ident not in self._had]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(clears=False)
        yield _run(last="MseLoss+NllLoss")  # measured before
        yield _run(again=True)  # an attack
        yield _run(head=0.5)
        yield _run(taught=4)  # left out where it pulls the other way

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()
        yield _run(head=0.0)


def _ends(passes: list[Call], window: Window) -> list[Counter[str] | None]:
    """By backward pass, what its loss is added up from; None where that is not known."""
    found: list[Counter[str] | None] = []
    for one in passes:
        told = [number for number in window.numbers if number.name == _ENDS and one.q < number.q < one.e]
        found.append(Counter(told[0].object.rpartition("#")[2].split("+")) if len(told) == 1 else None)
    return found


def _cleared(step: Step, passes: list[Call], ends: list[Counter[str] | None], window: Window) -> Call | None:
    """The clearing that took away what a loss had left that the last one does not hold."""
    if (step.call.args or {}).get("rewritten"):
        return None
    between = [call for call in step.between if call.name in ("forward", "step", "scaler.step")]
    last, held = passes[-1], ends[-1]
    for one, own in zip(passes[:-1], ends, strict=False):
        after = [call for call in step.clearing(window) if one.q < call.q < last.q]
        if not after or any(one.q < call.q < last.q for call in between) or own is None or held is None:
            continue
        if not own <= held:
            return after[0]
    return None


def _run(
    clears: bool = True, last: str = "NllLoss", again: bool = False, head: float | None = None, taught: int = -1
) -> list[Window]:
    """Steps after two backward passes of a body and a head, which has a gradient at one of the steps, or at none."""
    mini = Mini({"net.body.weight": {}, "net.age.weight": {}})
    clear = "zero_grad optimizer0:SGD"
    first, second = (
        ("backward", {"inside": [("scalar", _ENDS, f"train.py:{line}#{names}", 1.0)]})
        for line, names in ((7, "MseLoss"), (9, last))
    )
    rows: list[Any] = [clear, "forward net", first, *([clear] if clears else []), *(["forward net"] if again else [])]
    windows = []
    for step in range(_ROUNDS + 5):
        norm = 0.5 if not clears or step == taught else head
        left = ("gradients", {"net.body.weight": 0.5, "net.age.weight": norm})
        windows.append(mini.window(*rows, second, left, "step optimizer0:SGD"))
    return windows
