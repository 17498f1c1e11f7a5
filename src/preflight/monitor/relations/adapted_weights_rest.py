"""Weights under an adapter rest."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import untrained
from preflight.monitor.window import State, Variable, Window
from preflight.vocabulary.counted import counted

_RESTED = 2
_MOST_LATER = 8
_ROUNDED = 1e-5
"""Of the norm: what rounding may leave of adapters that were merged and taken out again."""


class AdaptedWeightsRest(Relation):
    """A frozen matrix beside trained ones of the same layer stays as it is.

    Adapters are merged into the weights that they adapt for an evaluation or before saving. Where they are not taken out
    again and go on to be added, the layer applies them twice, and each evaluation writes some more into weights that
    nobody trains.
    Judged are matrices that need no gradient and that no optimizer holds, in a layer of which an optimizer holds other
    matrices: they rested for some looks, and change in a gap between two steps. Left alone are a gap in which something
    was loaded, one in which the trained weights change too, as where adapters are merged for good and begin anew,
    what takes over the values of a trained weight, and a change as small as rounding makes.
    """

    name = "adapted-weights-rest"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"load_state_dict", "exact parameter at before_step", "exact parameter at after_step"})
    priority = 13
    cause = "adapters were merged for an evaluation or a checkpoint, and not taken out again"
    advice = "subtract what was added when the evaluation is over, or merge into a copy"

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._norms: dict[int, float] = {}
        self._rested: dict[int, int] = {}
        self._loaded = False
        self._after: dict[int, int] = {}  # of trained weights, the fingerprints that the last step left
        self._later: list[State] = []  # what is still to be taken into these: in most runs nobody asks for them
        self._last = -1  # the iteration of that step
        self._known: tuple[int, set[str]] = (-1, set())

    def see(self, window: Window) -> Iterator[Example]:
        self._loaded = self._loaded or bool(window.named("load_state_dict"))
        resting = {one.q for one in untrained(window, "before_step")}
        own: list[State] = []
        for state in sorted(window.states, key=lambda one: one.q):
            if state.what != "parameter" or not state.bits:
                continue
            if state.q in resting:
                yield from self._judge(state, own, window)
                self._loaded = False
            elif state.moment == "before_step":
                own.append(state)
            elif state.moment == "after_step":
                self._keep(state)
                self._last = window.iteration

    def _keep(self, state: State) -> None:
        """Keep the fingerprints of a state, over those that were kept of the same weights."""
        if self._later and self._later[-1].ids == state.ids and None not in (state.bits or ()):
            self._later.pop()
        self._later.append(state)
        if len(self._later) >= _MOST_LATER:
            self._take_in()

    def _take_in(self) -> None:
        for state in self._later:
            self._after.update(_pairs(state))
        self._later.clear()

    def _judge(self, state: State, before_step: list[State], window: Window) -> Iterator[Example]:
        layers = self._layers(window)
        self._take_in()
        own = {ident: bits for one in before_step for ident, bits in _pairs(one).items()}
        taken = set(own.values())
        known = window.iteration - self._last <= 1
        still = known and all(self._after.get(ident, bits) == bits for ident, bits in own.items())
        changed, judged = [], 0
        norms = dict(zip(state.ids, state.norm, strict=False))
        for ident, bits in _pairs(state).items():
            one = window.run.variables.get(ident)
            if one is None or one.trainable or one.optimizer >= 0 or not layers & _owners(one, 1):
                continue
            before, self._bits[ident] = self._bits.get(ident), bits
            norm = norms.get(ident) or 0.0
            old, self._norms[ident] = self._norms.get(ident, norm), norm
            rested, self._rested[ident] = self._rested.get(ident, 0), 0
            if before in (None, bits) or abs(norm - old) <= _ROUNDED * abs(old):
                self._rested[ident] = rested + (before is not None)
            elif rested >= _RESTED and still and not self._loaded and bits not in taken:
                changed.append(one.name)
            judged += before is not None
        if not judged:
            return
        step = window.named("step")
        yield Example(
            (),
            not changed,
            {},
            variables=tuple(changed),
            expected="the weights that the adapters were made for",
            seen=counted(
                len(changed),
                "frozen weight is another than at the step before",
                "frozen weights are others than at the step before",
            )
            if changed
            else None,
            call=step[-1] if step else None,
            detail="Frozen weights under an adapter were changed between two steps" if changed else "",
        )

    def _layers(self, window: Window) -> set[str]:
        """Modules that hold trained matrices, themselves or in their parts."""
        variables = window.run.variables
        if self._known[0] != variables.changes:
            held = [one for one in variables.values() if one.trainable and one.optimizer >= 0]
            self._known = variables.changes, {owner for one in held for owner in _owners(one, 2)}
        return self._known[1]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((1, 1, 1, 1, 1))
        yield _run((1, 2, 3, 4, 5))
        yield _run((1, 1, 1, 1, 2), adapter=(5, 6, 7, 8, 99))
        yield _run((1, 1, 1, 1, 2), by=1e-7)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((1, 1, 1, 1, 2))


def _pairs(state: State) -> dict[int, int]:
    return {ident: bits for ident, bits in zip(state.ids, state.bits or (), strict=False) if bits is not None}


def _owners(one: Variable, above: int) -> set[str]:
    """The modules that a matrix makes a layer with: its own, and some around it, but not the whole model."""
    found: set[str] = set()
    name = one.name
    if len(one.shape) >= 2 and one.dtype in ("float32", "float64"):
        for _ in range(1 + above):
            name = name.rpartition(".")[0]
            if "." in name:
                found.add(name)
    return found


def _run(base: tuple[int, ...], adapter: tuple[int, ...] = (5, 6, 7, 8, 9), by: float = 0.1) -> list[Window]:
    mini = Mini({"model.fc.base.weight": {"optimizer": -1, "trainable": False}, "model.fc.down.weight": {}})
    windows = []
    for at, bits in enumerate(base):
        own = ("before", {"model.fc.down.weight": (2.0, adapter[at])}, {"optimizer": 0})
        rest = ("before", {"model.fc.base.weight": (1.0 + by * bits, bits)}, {"optimizer": -1})
        after = ("after", {"model.fc.down.weight": (2.0, 6 + at)}, {"optimizer": 0})
        windows.append(mini.window("backward", own, rest, "step optimizer0:SGD", after))
    return windows
