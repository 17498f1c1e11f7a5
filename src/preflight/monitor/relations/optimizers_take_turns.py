"""An optimizer whose parameters get gradients steps at some time, as others do."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, State, Window
from preflight.vocabulary.counted import counted

_STEPS = 100
"""Steps of others, with gradients of it at hand, that an optimizer may wait for its first one: critics come first."""
_SURELY = 10
"""Such steps that are enough where no line of the program's text steps it."""
_NEARLY_ALL = 0.9
_EPOCHS = 3


class OptimizersTakeTurns(Relation):
    """An optimizer whose parameters get gradients in every iteration makes a step at some time.

    Of several optimizers one is made, its gradients are cleared and computed, and its ``step`` is missing: the discriminator,
    the decoder or the critic stays as it was made, while the other networks are trained against it.
    Judged once others have made a hundred steps in which it had gradients nearly always, and where data comes from a
    loader, in the fourth epoch: networks wait for their turn while others begin.
    Ten are enough in a program whose own text, all of it known, has no line that could step it, under any name that may
    hold it or by handing it to a library.
    Its parameters must have stayed as they were, to the last bit, each time they were looked at: what another optimizer
    holds too, or a wrapper or a compiled step updates, moves.
    Nothing is said where the text steps one under a condition on how far the training is (``if step > start``).
    """

    name = "optimizers-take-turns"
    needs = frozenset({"step", "backward", "zero_grad", "fetch", "state", "never", "staged"})
    repeats = 2
    looks = frozenset({"step", "backward", "zero_grad", "fetch", "exact parameter at before_step", "never", "staged"})
    whole = False
    severity = "warning"
    priority = 12
    cause = "the step of the optimizer is missing, or another one is stepped in its place"
    advice = "step each optimizer after the backward pass of its loss; do not make one for what is meant to rest"

    def __init__(self) -> None:
        self._stepped: set[int] = set()
        self._waited: dict[
            int, list[int]
        ] = {}  # by optimizer: the epoch, steps of others since then, and with gradients
        self._staged = False  # whether the text steps one once the training has come to some point
        self._never: set[str] = set()  # what no line of the program steps
        self._began: dict[int, Call] = {}  # by optimizer, the first step of another since it has waited
        self._bits: dict[int, int] = {}
        self._still: dict[int, int] = {}  # by optimizer: how often all of its parameters were as before; -1 once not
        self._epochs: dict[str, int] = {}
        self._most = 0

    def quiet(self, window: Window) -> bool:
        """Whether no optimizer waits; of one that does, it counts the steps."""
        return not self._waited

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.states:
            if state.moment == "before_step" and state.what == "parameter" and state.bits is not None:
                self._look(state, window)
        for call in window.named("fetch"):
            self._fetched(call)
        for call in window.named("never"):
            self._never.update((call.args or {})["step"])
        self._staged = self._staged or any((call.args or {})["steps"] for call in window.named("staged"))
        having = set(_having(window)) - self._stepped
        steps = window.named("step")
        for call in steps:
            index = optimizer_number(call)
            self._stepped.add(index)
            self._waited.pop(index, None)
        for index in having:
            if index not in self._stepped:
                self._waited.setdefault(index, [self._most, 0, 0])
        for index, waited in self._waited.items():
            waited[1] += len(steps)
            waited[2] += len(steps) * (index in having)
            if steps:
                self._began.setdefault(index, steps[0])
            yield self._judge(index, window)

    def _fetched(self, call: Call) -> None:
        epoch = int((call.args or {}).get("epoch") or 0)
        self._most = max(self._most, epoch - self._epochs.setdefault(call.object, epoch))

    def _look(self, state: State, window: Window) -> None:
        """Compare what an optimizer that never stepped holds with what it was."""
        assert state.bits is not None
        same: dict[int, bool] = {}
        for ident, bits in zip(state.ids, state.bits, strict=True):
            variable = window.run.variables.get(ident)
            if variable is None or variable.optimizer < 0 or variable.optimizer in self._stepped or bits is None:
                continue
            before = self._bits.get(ident)
            self._bits[ident] = bits
            same[variable.optimizer] = same.get(variable.optimizer, True) and before == bits
            if before is not None and before != bits:
                self._still[variable.optimizer] = -1
        for index, stays in same.items():
            if stays and self._still.get(index, 0) >= 0:
                self._still[index] = self._still.get(index, 0) + 1

    def _judge(self, index: int, window: Window) -> Example:
        began, others, having = self._waited[index]
        surely = any(name.startswith(f"optimizer{index}:") for name in self._never)
        late = surely or not self._epochs or self._most - began >= _EPOCHS
        late = late and having >= max(_SURELY if surely else _STEPS, _NEARLY_ALL * others)
        wrong = late and self._still.get(index, 0) > 0 and (surely or not self._staged)
        held = [one.name for one in window.run.variables.values() if one.optimizer == index]
        if not wrong or not held:
            return Example((), True, {})
        return Example(
            (),
            False,
            {},
            variables=(f"optimizer{index}", *held),
            expected=f"a step of optimizer{index}, which holds {held[0]}",
            seen=f"{counted(having, 'step')} of others while its parameters had gradients, and none of its own",
            call=self._began.get(index) if surely else next(iter(window.named("step")), None),
            detail="An optimizer never steps, though its parameters get gradients in every iteration",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = _mini()
        yield [mini.window(*_rows(7), "step optimizer0:SGD") for _ in range(_STEPS - 1)]
        mini = _mini()  # a critic that is trained several times before its generator
        yield [
            mini.window(*_rows(7), "step optimizer0:SGD", *(["step optimizer1:SGD"] if number == 60 else []))
            for number in range(2 * _STEPS)
        ]
        mini = _mini()  # another one holds the same parameters
        yield [mini.window(*_rows(number), "step optimizer0:SGD") for number in range(2 * _STEPS)]
        mini = _mini()
        rows = ("fetch loader0", *_rows(7), "step optimizer0:SGD")  # the first epoch is not over
        yield [mini.window(*rows) for _ in range(2 * _STEPS)]
        yield _told("optimizer0:SGD")
        mini = _mini()  # the text steps it later
        text = mini.window(("staged", {"args": {"cuts": False, "steps": True}}))
        yield [text, *(mini.window(*_rows(7), "step optimizer0:SGD") for _ in range(_STEPS + 1))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = _mini()
        yield [mini.window(*_rows(7), "step optimizer0:SGD") for _ in range(_STEPS + 1)]
        mini = _mini()
        cleared = ("zero_grad optimizer1:SGD", {"args": {"waiting": [1]}})
        rows = (cleared, "backward", _weights(7), "step optimizer0:SGD")
        yield [mini.window(*rows) for _ in range(_STEPS + 1)]
        yield _told("optimizer1:SGD")


def _having(window: Window) -> Iterator[int]:
    """The optimizers of which parameters had gradients as a backward pass began, or as gradients were cleared."""
    for call in window.named("backward"):
        yield from (int(index) for index in (call.args or {}).get("of") or ())
    for call in window.named("zero_grad"):
        yield from (call.args or {}).get("waiting") or ()


def _told(*never: str) -> list[Window]:
    """A short run, at the end of which is told what no line of the program steps."""
    mini = _mini()
    windows = [mini.window(*_rows(7), "step optimizer0:SGD") for _ in range(_SURELY + 1)]
    return [*windows, mini.window(("never", {"args": {"step": list(never), "backward": []}}))]


def _mini() -> Mini:
    return Mini({"generator.weight": {}, "critic.weight": {"optimizer": 1}})


def _weights(bits: int) -> tuple[object, ...]:
    return ("before", {"critic.weight": (1.0, bits)}, {"optimizer": -1})


def _rows(bits: int) -> tuple[object, ...]:
    return (("backward", {"args": {"of": {"1": 4}}}), _weights(bits))
