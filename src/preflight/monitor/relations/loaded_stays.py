"""What is loaded is what the training starts from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, optimizer_number, steps_of
from preflight.monitor.window import Call, State, Variable, Window

_LEAST = 2
_ROUNDED, _ALIKE = 0.005, 0.05
"""By how much norms change where values are rounded; and by how much factors differ that are one and the same but for noise."""


class _Loaded(NamedTuple):
    """A parameter as a load left it."""

    variable: Variable
    bits: int
    call: Call
    norm: float | None


class LoadedStays(Relation):
    """Weights that are loaded into a module are still there at the first step that follows.

    A model that initialises itself when the training begins, or when it is moved or wrapped, throws away what was loaded
    before, and the training starts from random weights.
    Judged by fingerprints, where an optimizer makes its first step after a load and holds at least two of the parameters
    that were loaded: it is broken where all of these changed in between, with nothing to be seen that would have
    brought them from elsewhere (another load, a collective, a wrapper, a step).
    A part of them that changes (a head that is made anew, a few layers that are reset) is meant so; and so is a change that
    leaves the norms of all matrices nearly as they were (values that are rounded), or takes them all by one factor (shrunk
    weights with a little noise).
    It is broken, too, where two weights that were loaded with unlike values are one parameter by then: a model was tied
    after its load, and the weight of one place is gone.
    Not judged is a module that was trained before the load: its best weights are brought back, it is evaluated, and the
    next fold begins with other ones. Nor is a name that another module has by then.
    """

    name = "loaded-stays"
    category = "checkpoint"
    needs = frozenset({"load_state_dict", "state", "step"})
    repeats = 2
    looks = frozenset({"step", "root"})
    reads = frozenset({"load_state_dict"})
    severity = "warning"
    priority = 11
    cause = "the weights are initialised after they were loaded (init_weights, post_init, reset_parameters, apply)"
    advice = "initialise the model before its weights are loaded, and only what the checkpoint lacks"

    def __init__(self) -> None:
        self._loaded: dict[str, _Loaded] = {}
        self._trained: set[str] = set()
        self._called: set[str] = set()  # roots that were called

    def see(self, window: Window) -> Iterator[Example]:
        if not self._loaded and not window.named("load_state_dict"):
            self._called.update(call.object for call in window.named("root"))
            for call in window.named("step"):
                self._trained |= window.run.roots(optimizer_number(call))
            return
        events: list[tuple[int, Call | State]] = [(call.q, call) for call in window.plain if _matters(call)]
        events += [(one.q, one) for one in window.states if one.moment == "loaded" and one.what == "parameter"]
        steps = {step.call.q: step for step in steps_of(window)}
        load: Call | None = None
        for _, event in sorted(events, key=lambda pair: pair[0]):
            if isinstance(event, State):
                if load is not None:
                    self._take(event, load, window)
                load = None
            elif event.name == "load_state_dict":
                load = event if optimizer_number(event) < 0 and (event.args or {}).get("matched") else None
            elif event.name == "step":
                if self._loaded and event.q in steps:
                    yield from self._judge(steps[event.q], window)
                self._loaded.clear()
                self._trained |= window.run.roots(optimizer_number(event))
            elif event.name == "root":
                self._call(event.object)
            else:
                self._loaded.clear()

    def _call(self, root: str) -> None:
        """A module is called for the first time: one whose name was called before is another one than was loaded."""
        if root in self._called:
            self._loaded = {name: one for name, one in self._loaded.items() if one.variable.root != root}
        self._called.add(root)

    def _take(self, state: State, load: Call, window: Window) -> None:
        """Keep what the load left under the name of its module."""
        for ident, bits, norm in zip(state.ids, state.bits or (), state.norm, strict=False):
            known = window.run.variables.get(ident)
            if known is None or bits is None or not known.name.startswith(load.object + "."):
                continue
            if known.trainable and known.numel > 1 and known.root not in self._trained:
                self._loaded[known.name] = _Loaded(known, bits, load, norm)

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        state = step.before
        if state is None or state.bits is None:
            return
        stayed: list[tuple[str, Call]] = []
        changed: list[tuple[str, Call]] = []
        called = {call.object.split(".")[0] for call in window.named("forward")}
        factors: list[float] = []
        for ident, bits, norm in zip(state.ids, state.bits, state.norm, strict=True):
            now = window.run.variables.get(ident)
            loaded = self._same(now, called) if now is not None else None
            if now is None or loaded is None or bits is None:
                continue
            (stayed if bits == loaded.bits else changed).append((now.name, loaded.call))
            if norm and loaded.norm and len(now.shape) > 1:
                factors.append(norm / loaded.norm)
        yield from self._tied(step, window)
        if len(stayed) + len(changed) < _LEAST:
            return
        wrong = not stayed and not _worked_over(factors)
        names = tuple(name for name, _ in changed) if wrong else ()
        yield Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=names,
            expected="at the first step the weights that were loaded",
            seen=f"other values in all {len(changed)} that were loaded" if wrong else None,
            call=changed[0][1] if wrong else step.call,
            detail="Loaded weights were overwritten before the first step" if wrong else "",
        )

    def _tied(self, step: Step, window: Window) -> Iterator[Example]:
        """Weights that came apart from each other and are one parameter now."""
        known = window.run.variables
        for one in known.values():
            other = known.get(one.shared)
            if other is None or one.root != other.root:
                continue
            mine, its = self._loaded.get(one.name), self._loaded.get(other.name)
            if mine is None or its is None or mine.call is not its.call:
                continue
            wrong = mine.bits != its.bits
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=(one.name, other.name) if wrong else (),
                expected="two parameters, with the values that were loaded",
                seen="one parameter, with the values of one of them" if wrong else None,
                call=mine.call,
                detail=f"{one.name} was loaded, and is {other.name} at the first step" if wrong else "",
            )

    def _same(self, now: Variable, called: set[str]) -> _Loaded | None:
        """The loaded parameter that a variable is: by its name, or by the end of it where its module became a part.

        A module that is still called by itself has not become a part of another one.
        """
        found = self._loaded.get(now.name)
        if found is None:
            ends = [one for name, one in self._loaded.items() if now.name.endswith("." + name)]
            found = ends[0] if len(ends) == 1 and ends[0].variable.root not in called else None
        if found is None or found.variable.shape != now.shape or found.variable.dtype != now.dtype:
            return None
        return found

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run({"model.a": (1.0, 7), "model.b": (1.0, 8)})
        yield _run({"model.a": (1.0, 7), "model.b": (1.0, 9)})
        yield _run({"model.a": (1.001, 5), "model.b": (0.998, 9)})
        yield _run({"model.a": (0.5, 5), "model.b": (0.51, 9)})
        yield _run({"model.a": (1.0, 7), "model.b": (1.0, 8)}, {"model.a": (1.0, 5), "model.b": (1.0, 9)})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run({"model.a": (1.04, 5), "model.b": (1.06, 9)})
        yield _run({"model.a": (1.3, 5), "model.b": (0.6, 9)})


def _matters(call: Call) -> bool:
    """Whether a call brings weights or changes them in a way that is seen."""
    return call.name in ("load_state_dict", "step", "root") or call.name.startswith(("collective.", "wrap."))


def _worked_over(factors: list[float]) -> bool:
    """Whether the norms of matrices changed by factors of values that were worked over, not thrown away."""
    if len(factors) < _LEAST:
        return False
    low, high = min(factors), max(factors)
    if low >= 1 - _ROUNDED and high <= 1 + _ROUNDED:
        return True
    return high <= (1 + _ALIKE) * low and not 1 - 2 * _ALIKE < low < 1 + 2 * _ALIKE


def _run(*befores: dict[str, tuple[float, int]]) -> list[Window]:
    mini = Mini({name: {} for name in befores[0]})
    load = ("load_state_dict model", {"args": {"matched": 2, "missing": [], "unexpected": []}})
    loaded = ("loaded", {"model.a": (1.0, 7), "model.b": (1.0, 8)})
    return [mini.window(load, loaded, "backward", ("before", before), "step optimizer0:SGD") for before in befores]
