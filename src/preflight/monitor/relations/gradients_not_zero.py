"""Gradients are not zero for ever."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.flow import Flow, flow_of
from preflight.monitor.views.paths import outer_modules
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_ROUNDS = 3
_RECURRENT = ("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell")


class GradientsNotZero(Relation):
    """A weight whose gradient exists has at some time one that is not zero.

    A gradient that is exactly zero in each of the first steps, while others are not, means that the parameter has no effect
    or is held by another one at a saddle: two factors that both start at zero, a gate that is closed, a mask that is empty.
    Parameters of modules that did not take part in the pass are left out, and so are biases, and networks that the program
    calls itself of which every gradient is zero beside others of the same optimizer: their term of the loss has no weight yet.
    A step with a closure finds what the closure of the step before has left, which is looked at as well.
    A recurrent layer may be given zeros at each step, or sequences of one step after a state of zeros: one of its weights
    has no effect then, which is not reported where another one has.
    """

    name = "gradients-not-zero"
    needs = frozenset({"step", "state", "module", "forward"})
    follows = (flow_of,)
    repeats = 1
    looks = frozenset({"step"})
    reads = frozenset({"module"})
    wakes = frozenset({"gradients of a step"})
    severity = "warning"
    priority = 30
    cause = "the parameter is multiplied by zero: both factors of a product start at zero, units are dead, a mask or gate is closed"
    advice = "look at the initial values of the parameter and of what its output is multiplied by"

    def __init__(self) -> None:
        self._zero: dict[int, int] = {}  # how often the gradient was zero, and nothing else so far
        self._alive: set[int] = set()  # variables that had another one
        self._flow = Flow()

    def kept(self) -> object:
        """Nothing: of others it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        self._flow = flow_of(window)
        for step in steps_of(window):
            if step.gradients is None or not self._flow.seen:
                continue
            if not any(norm and norm == norm for norm in step.gradients.norm):
                continue
            wrong = []
            self._alive.update(compress(step.gradients.ids, step.gradients.norm))
            waiting = self._waiting(step, window) if 0 in step.gradients.norm else frozenset()
            for ident, norm in (
                zip(step.gradients.ids, step.gradients.norm, strict=True) if 0 in step.gradients.norm else ()
            ):
                variable = window.run.variables.get(ident)
                if norm != 0 or ident in self._alive or variable is None or len(variable.shape) < 2:
                    continue
                if (variable.spread or {}).get("kind") == "sharded":
                    continue  # a part of a tensor may be empty or have no effect
                count = self._zero[ident] = self._zero.get(ident, 0) + 1
                module = variable.name.rpartition(".")[0]
                if (
                    count >= _ROUNDS
                    and module in self._flow.called
                    and not waiting.intersection(outer_modules(variable.name))
                    and not (variable.module in _RECURRENT and self._works(module, step, window))
                ):
                    wrong.append(variable.name)
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=tuple(wrong),
                expected="a gradient other than zero in one of the first steps",
                seen=counted(len(wrong), "weight", "weights") + " had gradients of exactly zero in every step"
                if wrong
                else None,
                call=step.call,
                detail="Weights have gradients that have always been exactly zero" if wrong else "",
            )

    def _waiting(self, step: Step, window: Window) -> frozenset[str]:
        """Networks that the program calls itself, of which no gradient is other than zero."""
        assert step.gradients is not None
        known = window.run.variables
        held: dict[str, bool] = {}
        for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
            for name in outer_modules(known[ident].name) if ident in known else ():
                held[name] = held.get(name, False) or bool(norm)
        return frozenset(name for name in self._flow.roots if held.get(name) is False)

    @staticmethod
    def _works(module: str, step: Step, window: Window) -> bool:
        """Whether a weight of a module has a gradient other than zero."""
        if step.gradients is None:
            return False
        known = window.run.variables
        return any(
            norm
            and norm == norm
            and ident in known
            and len(known[ident].shape) > 1
            and known[ident].name.rpartition(".")[0] == module
            for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True)
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.0, 0.0, 0.1, 0.0])
        yield _run([0.0] * 4, ("net.a.weight_ih_l0", "net.a.weight_hh_l0"), "GRU")
        yield _run([0.0, 0.1, 0.0, 0.0], closure=True)
        yield _run([0.0] * 4, ("aux.weight", "net.b.weight"), roots=("aux", "net"))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.0] * 4)
        yield _run([0.0] * 4, closure=True)
        yield _run([0.0] * 4, ("net.a.weight_ih_l0", "net.b.weight"), "GRU")


def _run(
    norms: list[float],
    names: tuple[str, str] = ("net.a.weight", "net.b.weight"),
    module: str = "Linear",
    closure: bool = False,
    roots: tuple[str, ...] = ("net",),
) -> list[Window]:
    mini = Mini({name: {"module": module} for name in names})
    inside = [f"module {name.rpartition('.')[0]}" for name in names]
    forward = [(f"forward {root}", {"args": {"training": True}, "inside": inside}) for root in roots]
    step = ("step optimizer0:SGD", {"args": {"closure": closure}})
    return [mini.window(*forward, "backward", ("gradients", {names[0]: norm, names[1]: 0.5}), step) for norm in norms]
