"""A step of the training uses no gradients of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window

_SETTLED = 3
"""Steps without gradients of passes in evaluation mode after which such gradients are none that each step is made of."""


class TrainingGradientsAlone(Relation):
    """Gradients that passes in evaluation mode have left behind are cleared before the training goes on.

    Where an evaluation goes backward too, because it shares its code with the training or is made for scores of inputs,
    what it adds to the gradients is still there when the next epoch begins, and its first step follows data that were held
    out. A loop that clears after each step, and not before each backward pass, does not notice.
    Judged are steps that follow backward passes in training mode. It is broken where backward passes came before these, of
    which all forward passes with gradients were made in evaluation mode, nothing was cleared in between, and there were
    gradients when the training's own pass began. A program in which this happens in its first steps mixes both on purpose,
    and one that never calls ``zero_grad()`` clears in ways of its own.
    """

    name = "training-gradients-alone"
    needs = frozenset({"forward", "backward", "zero_grad", "step"})
    wakes = frozenset({"forward", "backward", "zero_grad", "step"})
    repeats = 3
    looks = frozenset({"forward", "backward", "zero_grad", "step"})
    severity = "warning"
    priority = 8
    cause = "the evaluation runs backward() as well, and its gradients are not cleared before the training goes on"
    advice = "evaluate under torch.no_grad(), or call optimizer.zero_grad() before the first backward pass of each step"

    def __init__(self) -> None:
        self._modes: set[bool] = set()  # of the passes with gradients since the last backward pass
        self._left: Call | None = None  # a backward pass of an evaluation whose gradients were not cleared
        self._trained = False  # whether a backward pass of the training came since the last step
        self._mixed: Call | None = None  # such a one as was followed by a backward pass of the training
        self._settled = 0
        self._meant = False
        self._clears = False  # whether the program was seen to clear gradients

    def quiet(self, window: Window) -> bool:
        """Whether nothing is left over, and it is known whether that is meant."""
        return self._left is None and not self._modes and (self._meant or self._settled >= _SETTLED)

    def see(self, window: Window) -> Iterator[Example]:
        held = window.run.trained()
        calls = (call for name in ("forward", "backward", "zero_grad", "step") for call in window.named(name))
        for call in sorted(calls, key=ORDER):
            told = call.args or {}
            if call.name == "forward":
                if (call.context or "").startswith("grad") and call.object.split(".")[0] in held:
                    self._modes.add(bool(told.get("training")))
            elif call.name == "backward":
                self._passed(call)
            elif call.name == "zero_grad":
                self._left = self._mixed = None
                self._clears = True
            else:
                yield from self._stepped(call)

    def _passed(self, call: Call) -> None:
        """A backward pass: of an evaluation, of the training, or of what no pass of a trained model led to."""
        if True in self._modes:
            self._trained = True
            if self._left is not None and (call.args or {}).get("gradients"):
                self._mixed = self._left
            self._left = None
        elif self._modes and self._clears and not self._trained:
            self._left = call
        self._modes = set()

    def _stepped(self, step: Call) -> Iterator[Example]:
        mixed, trained = self._mixed, self._trained
        self._left, self._mixed, self._trained = None, None, False
        if not trained or self._meant:
            return
        if mixed is None or self._settled < _SETTLED:
            self._meant = mixed is not None
            self._settled += mixed is None
            yield Example((), True, {}, call=step)
            return
        yield Example(
            (),
            False,
            {},
            variables=("backward", step.object),
            expected="gradients of passes in training mode",
            seen="gradients that a backward pass in evaluation mode left behind",
            call=mixed,
            detail="A step uses gradients of an evaluation, which were not cleared when the training went on",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("zero_grad optimizer0:SGD",), 4)
        yield _run((), 1)  # mixed from the first steps on
        yield _run((), 4, gradients=0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((), 4)


def _run(cleared: tuple[str, ...], steps: int, gradients: int = 2) -> list[Window]:
    """Some steps, a pass backward in evaluation mode, and another step."""
    mini = Mini({"model.weight": {}})
    left = ("backward", {"args": {"gradients": gradients}})

    def passed(training: bool) -> tuple[str, dict[str, object]]:
        return ("forward model", {"args": {"training": training}})

    step = ("step optimizer0:SGD", "zero_grad optimizer0:SGD")
    windows = [mini.window(passed(True), "backward", *step) for _ in range(steps)]
    return [*windows, mini.window(passed(False), "backward", *cleared, passed(True), left, *step)]
