"""Backward passes are followed by steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.resting import MOMENT, Resting
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, Number, State, Window
from preflight.vocabulary.counted import counted

_LEARNT = 5
"""Steps after which it is known how many backward passes one takes."""
_MUCH = 8
"""How many times as many backward passes without a step are too many where their gradients are kept."""
_NEVER = 3
"""How often an optimizer may clear the gradients of backward passes before its first step."""
_TURN = 10
"""Steps of others that an optimizer may wait for its turn: critics are trained several times as often as generators."""


class StepsCome(Relation):
    """Backward passes of training are followed by a step, as often as they were before.

    A condition that is never true again, a call that was lost in a branch, or a scheduler stepped in the optimizer's
    place: the loss is computed and nothing is trained. How many backward passes a step takes is learnt from the run.
    Passes whose gradients are cleared without a step count as soon as there are two in a row, unless the loss, the norm
    of the gradients or the gradients themselves are not finite, or the program has cleared gradients in this way before.
    A step that a loss scaler skips is a step.

    Gradients are also computed to be read: importances of weights after a task, scores of samples, gradients of one
    sample after the other that are clipped and added up. Once steps come, passes count where passes of the same line of
    the program have led to steps. An optimizer that clears gradients and has never stepped is told of once the training
    went on as after a step: another optimizer steps again and again, a schedule advances, weights are saved, a model is
    evaluated, or a loader has gone through its data twice; and only where everything that it holds is as it was, to the
    last bit: what a compiled step or a hand moves lacks nothing. Of such a one nothing is said where the program's text
    steps an optimizer under a condition on how far the training is (``if step > start``).
    """

    name = "steps-come"
    needs = frozenset(
        {
            "step",
            "backward",
            "zero_grad",
            "scaler.step",
            "forward",
            "state",
            "scheduler.step",
            "fetch",
            "save",
            "staged",
        }
    )
    repeats = 2
    looks = frozenset(
        {"forward", "backward", "zero_grad", "step", "scaler.step", "numbers", "gradient at before_clear", "staged"}
    )
    reads = frozenset({f"parameter at {MOMENT}"})
    priority = 7
    cause = "the condition around optimizer.step() is no longer true, the call is missing, or another object is stepped in its place"
    advice = "call optimizer.step() after the backward pass (or the last of those that are accumulated)"

    def __init__(self) -> None:
        self._staged = False  # whether the text steps an optimizer once the training has come to some point
        self._usual: deque[int] = deque(maxlen=_LEARNT)
        self._steps = 0
        self._since = 0  # backward passes of training since the last step
        self._cleared = 0  # of these, such that were cleared again
        self._open = False  # a pass whose gradients were neither used nor cleared
        self._discards = False  # gradients were cleared unused between steps before
        self._finite = True
        self._first: dict[int, int] = {}  # by optimizer that never stepped: cleared passes; -1 once it did
        self._began: dict[int, int] = {}  # and how far the training had gone on at the first of them
        self._with: set[int] = set()  # optimizers whose parameters had gradients as a backward pass began
        self._leading: set[str | None] = set()  # lines of the program whose passes have led to steps
        self._places: set[str | None] = set()  # those of passes whose gradients were neither used nor cleared
        self._other_line = False  # a pass of another line
        self._went_on = 0  # steps, and what else comes once something was trained
        self._epochs: dict[str, int] = {}
        self._resting = Resting()
        self._looked: dict[int, int] = {}  # by optimizer: how far the training had gone on when it was last looked at

    def kept(self) -> object:
        """Nothing: of optimizers that wait for their first step it never sleeps (see ``quiet``)."""
        return ()

    def quiet(self, window: Window) -> bool:
        """Whether all numbers are finite, and it is known how many passes a step takes, and who makes steps."""
        if self._other_line:
            return False
        known = len(self._usual) == _LEARNT and len(set(self._usual)) == 1 and max(self._first.values(), default=-1) < 0
        return known and next(_not_finite(window), None) is None

    def see(self, window: Window) -> Iterator[Example]:
        training = True
        self._staged = self._staged or any((call.args or {})["steps"] for call in window.named("staged"))
        self._other_line = False
        looks = [one for one in window.states if one.moment == MOMENT]
        for row in sorted([*_calls(window), *_not_finite(window), *looks], key=ORDER):
            if isinstance(row, State) and row.moment == MOMENT:
                self._looked[self._resting.see(row)] = self._went_on
            elif not isinstance(row, Call):
                self._finite = False
            elif row.name == "forward":
                training = bool((row.args or {}).get("training", True)) and "nograd" not in row.context
                self._went_on += _TURN * (not training and "nograd" in row.context)
            elif row.name == "backward":
                self._with.update(int(index) for index in (row.args or {}).get("of") or ())  # left since it was cleared
                if training:
                    yield from self._pass(row, window)
            elif row.name == "zero_grad":
                self._clear(row, window)
            elif row.name in ("step", "scaler.step"):
                self._step()
                self._first[optimizer_number(row)] = -1
            else:
                self._went_on += self._goes_on(row)
        yield from self._never(window)

    def _pass(self, call: Call, window: Window) -> Iterator[Example]:
        """Count a pass; once steps come, one of a line whose passes have led to steps."""
        self._places.add(call.place)
        if self._steps >= _LEARNT and call.place not in self._leading:
            self._other_line = True
            return
        self._since += 1
        self._open = True
        yield self._judge(call, window)

    def _goes_on(self, call: Call) -> int:
        """How far a call shows that the training goes on; of fetches the first of an epoch, of which two are a turn."""
        if call.name != "fetch":
            return _TURN
        epoch = int((call.args or {}).get("epoch") or 0)
        known = self._epochs.setdefault(call.object, epoch)
        self._epochs[call.object] = epoch
        return _TURN // 2 if epoch > known else 0

    def _clear(self, call: Call, window: Window) -> None:
        index = optimizer_number(call)
        owners = {index}
        if index < 0:
            root = call.object.split(".")[0]
            owners = {one.optimizer for one in window.run.variables.values() if one.root == root} & self._with
        for owner in owners:
            if (self._open or owner in self._with) and self._first.get(owner, 0) >= 0:
                self._first[owner] = self._first.get(owner, 0) + 1
                self._began.setdefault(owner, self._went_on)
        self._with -= owners
        self._cleared += self._open
        self._open = False
        self._places.clear()

    def _step(self) -> None:
        self._steps += 1
        self._went_on += 1
        self._leading |= self._places
        self._places.clear()
        self._discards = self._discards or (self._cleared > 0 and self._finite)
        if self._since:
            self._usual.append(self._since)
        self._since = self._cleared = 0
        self._open = False
        self._finite = True

    def _judge(self, call: Call, window: Window) -> Example:
        most = max(self._usual, default=0)
        known = self._steps >= _LEARNT and most > 0
        thrown = self._cleared >= max(1, most) and not self._discards and self._finite
        wrong = known and ((thrown and self._since > most) or self._since >= _MUCH * most)
        context = {"discards": self._discards, "finite": self._finite}
        if not wrong:
            return Example((), True, context)
        return Example(
            (),
            False,
            context,
            variables=_held(window),
            expected=f"a step after {'each backward pass' if most == 1 else f'{most} backward passes'}",
            seen=f"{counted(self._since, 'backward pass', 'backward passes')} without a step",
            call=call,
            detail="Backward passes are no longer followed by a step of an optimizer",
        )

    def _never(self, window: Window) -> Iterator[Example]:
        for index, count in self._first.items():
            if count < _NEVER or self._looked.get(index, 0) - self._began[index] < _TURN:
                continue
            if self._staged or not self._resting.rests(index):
                continue
            clearing = window.named("zero_grad")
            name = next((call.object for call in clearing if optimizer_number(call) == index), f"optimizer{index}")
            yield Example(
                (),
                False,
                {"discards": self._discards, "finite": self._finite},
                variables=_held(window, index) or (name,),
                expected=f"a step of {name} after the backward pass",
                seen=f"its gradients were cleared {counted(count, 'time')} after a backward pass, and it never stepped",
                call=clearing[-1] if clearing else None,
                detail="The gradients of an optimizer's parameters are cleared again and again, and it never makes a step",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD")
        skipped = ("zero_grad optimizer0:SGD", "forward model", ("loss", math.inf), "backward")
        yield [*(mini.window(*rows) for _ in range(7)), mini.window(*skipped), mini.window(*rows)]
        mini = Mini({"model.weight": {}})
        micro = ("forward model", "backward") * 4
        yield [mini.window(*micro, "step optimizer0:SGD", "zero_grad optimizer0:SGD") for _ in range(8)]
        mini = Mini({"model.weight": {}})
        read = (("backward", {"place": "train.py:40"}), "zero_grad optimizer0:SGD")  # gradients that are read, not used
        led = (
            "forward model",
            ("backward", {"place": "train.py:20"}),
            "step optimizer0:SGD",
            "zero_grad optimizer0:SGD",
        )
        yield [mini.window(*read * 5), *(mini.window(*led) for _ in range(7)), *(mini.window(*read) for _ in range(9))]
        mini = Mini({"model.weight": {}})  # its step is compiled, and runs no hooks
        yield [mini.window(_look(number), *rows[:-1], "scheduler.step StepLR") for number in range(6)]
        mini = Mini({"model.weight": {}})  # the text steps it later
        text = mini.window(("staged", {"args": {"cuts": False, "steps": True}}))
        yield [text, *(mini.window(_look(7), *rows[:-1], "scheduler.step StepLR") for _ in range(5))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD")
        yield [*(mini.window(*rows) for _ in range(7)), *(mini.window(*rows[:-1]) for _ in range(2))]
        mini = Mini({"model.weight": {}})
        yield [mini.window(_look(7), *rows[:-1], "scheduler.step StepLR") for _ in range(5)]
        mini = Mini({"model.weight": {}})
        epochs = [("fetch loader0", {"args": {"epoch": epoch}}) for epoch in (0, 0, 1, 1, 2, 2)]
        yield [mini.window(fetch, _look(7), *rows[:-1]) for fetch in epochs]


_WATCHED = ("forward", "backward", "zero_grad", "step", "scaler.step", "scheduler.step", "save", "fetch")


def _calls(window: Window) -> list[Call]:
    return [call for name in _WATCHED for call in window.named(name) if _outside(call)]


def _not_finite(window: Window) -> Iterator[Number | State]:
    """The losses and norms of gradients that are not finite, and the gradients with one that is none before a clear."""
    for number in window.numbers:
        if number.name in ("loss", "grad_norm") and (number.value is None or not math.isfinite(number.value)):
            yield number
    for state in window.states:
        if state.moment == "before_clear" and any(norm is not None and norm != norm for norm in state.norm):
            yield state


def _look(bits: int) -> tuple[object, ...]:
    return (MOMENT, {"model.weight": (1.0, bits)}, {"optimizer": 0})


def _outside(call: Call) -> bool:
    """Whether a call is not part of another one: a closure makes its passes inside of the step."""
    return call.parent < 0 or call.name in ("step", "forward")


def _held(window: Window, optimizer: int | None = None) -> tuple[str, ...]:
    """Names of the parameters that an optimizer holds, or any."""
    held = (one for one in window.run.variables.values() if one.optimizer >= 0)
    return tuple(one.name for one in held if optimizer is None or one.optimizer == optimizer)
