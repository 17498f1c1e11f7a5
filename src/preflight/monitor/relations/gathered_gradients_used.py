"""Gradients that are gathered pass after pass are used by a step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.resting import MOMENT, Resting
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, State, Window
from preflight.vocabulary.counted import counted

_ROUNDS = 2
"""Times that a loader goes through its data: gradients are gathered over one epoch at most."""
_RATES = 3
"""Steps of a schedule, whose rates are those of steps."""
_PASSES = 64
"""Backward passes before weights that are saved are those that should have been trained."""


class _Gathered:
    """What came since gradients lie there for an optimizer and are kept."""

    def __init__(self) -> None:
        self.passes = self.rounds = self.rates = 0


class GatheredGradientsUsed(Relation):
    """Where gradients are added up over many passes, an optimizer makes a step with them at some time.

    A loop that has lost both ``optimizer.step()`` and ``zero_grad()``, or steps what is no optimizer: losses are computed,
    gradients grow, and nothing is trained. Whoever clears them between passes is spoken of by `steps-come`.
    Judged as long as no optimizer of the program has stepped, of one whose parameters had gradients as each pass began: once
    a loader has gone through its data twice meanwhile, a schedule has made three steps, or the parameters are saved after
    64 passes; and only where all of them are as they were, to the last bit: what a compiled step or a hand moves lacks nothing.
    """

    name = "gathered-gradients-used"
    needs = frozenset({"step", "backward", "zero_grad", "scaler.step", "fetch", "scheduler.step", "save", "state"})
    repeats = 1
    looks = frozenset({"backward", "step", "scaler.step"})
    whole = False
    priority = 7
    cause = "optimizer.step() is missing, or another object is stepped in its place"
    advice = "call optimizer.step() after the backward pass, and clear the gradients before the next one"

    def __init__(self) -> None:
        self._stepped = self._over = False
        self._gathered: dict[int, _Gathered] = {}
        self._epochs: dict[str, int] = {}
        self._fetched = ""  # the loader that gave the last batch
        self._feeding: set[str] = set()  # those whose batches are trained on: others are gone through to evaluate
        self._resting = Resting()

    def quiet(self, window: Window) -> bool:
        """Whether an optimizer has stepped before this window: nothing is said from then on."""
        return self._over

    def see(self, window: Window) -> Iterator[Example]:
        self._over = self._stepped
        if self._over:
            return
        passes = window.named("backward")
        rows: list[Call | State] = [*_calls(window), *window.states]
        for row in sorted(rows, key=ORDER):
            if isinstance(row, State):
                yield from self._state(row, window)
            elif row.name in ("step", "scaler.step"):
                self._stepped = True
                break
            else:
                self._take(row, window)
        if passes:
            yield Example((), True, {})

    def _take(self, call: Call, window: Window) -> None:
        if call.name == "backward":
            self._feeding.add(self._fetched)
            having = {int(index) for index in (call.args or {}).get("of") or ()}
            self._gathered = {index: self._gathered.get(index) or _Gathered() for index in having}
            for one in self._gathered.values():
                one.passes += 1
        elif call.name == "zero_grad":
            root, index = call.object.split(".")[0], optimizer_number(call)
            for cleared in [one for one in self._gathered if one == index or root in window.run.roots(one)]:
                del self._gathered[cleared]
        elif call.name == "scheduler.step":
            for one in self._gathered.values():
                one.rates += 1
        else:
            epoch = int((call.args or {}).get("epoch") or 0)
            self._fetched = call.object
            if epoch > self._epochs.setdefault(call.object, epoch) and call.object in self._feeding:
                for one in self._gathered.values():
                    one.rounds += 1
            self._epochs[call.object] = epoch

    def _state(self, state: State, window: Window) -> Iterator[Example]:
        """Judge at a look at what does not step, and as weights are saved."""
        saved = state.moment == "saved" and state.what == "parameter"
        looked = self._resting.see(state)
        for index, one in self._gathered.items():
            many = one.rounds >= _ROUNDS or one.rates >= _RATES
            wrong = index == looked and many and self._resting.rests(index)
            if saved and one.passes >= _PASSES and self._resting.rests(index):
                wrong = self._resting.as_seen(index, state)
            if wrong:
                yield self._example(index, one, window)

    @staticmethod
    def _example(index: int, gathered: _Gathered, window: Window) -> Example:
        held = [one.name for one in window.run.variables.values() if one.optimizer == index]
        return Example(
            (),
            False,
            {},
            variables=(f"optimizer{index}", *held),
            expected=f"a step of optimizer{index} after a backward pass",
            seen=f"{counted(gathered.passes, 'backward pass', 'backward passes')} whose gradients were added up, and no step of any optimizer",
            call=next(iter(window.named("backward") or window.named("save")), None),
            detail="Gradients are gathered pass after pass, and no optimizer makes a step",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})  # one step with the gradients of all data
        rounds = [_window(mini, epoch, 7) for epoch in (0, 0, 0)]
        yield [*rounds, mini.window("step optimizer0:SGD", "zero_grad optimizer0:SGD")]
        mini = Mini({"model.weight": {}})  # something moves it that is not seen
        yield [_window(mini, number // 2, number) for number in range(8)]
        mini = Mini({"model.weight": {}})  # what is gone through again and again is what is evaluated on
        evaluated = [("fetch loader1", {"args": {"epoch": number}}) for number in range(8)]
        yield [mini.window(*_rows(0, 7), fetch, ("forward model", {"context": "nograd"})) for fetch in evaluated]
        mini = Mini({"model.weight": {}})  # gradients that are read, and cleared
        yield [
            mini.window(*_rows(number // 2, 7), "zero_grad model", "scheduler.step StepLR", ("backward", {}))
            for number in range(8)
        ]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [_window(mini, number // 2, 7) for number in range(8)]
        mini = Mini({"model.weight": {}})
        yield [mini.window(*_rows(0, 7), "scheduler.step StepLR") for _ in range(5)]


_WATCHED = ("backward", "zero_grad", "step", "scaler.step", "scheduler.step", "fetch")


def _calls(window: Window) -> list[Call]:
    return [call for name in _WATCHED for call in window.named(name)]


def _rows(epoch: int, bits: int) -> tuple[object, ...]:
    return (
        ("fetch loader0", {"args": {"epoch": epoch}}),
        (MOMENT, {"model.weight": (1.0, bits)}, {"optimizer": 0}),
        ("backward", {"args": {"of": {"0": 1}}}),
    )


def _window(mini: Mini, epoch: int, bits: int) -> Window:
    return mini.window(*_rows(epoch, bits))
