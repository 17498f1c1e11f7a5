"""A network that follows another begins as its copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import compress
from operator import not_

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import begun_alike, untrained
from preflight.monitor.views.fingerprints import Look, looks_of
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Run, State, Variable, Window
from preflight.vocabulary.counted import counted

_INTERVALS = 2
_MOST_KEPT = 64
_Key = tuple[str, tuple[int, ...], str]


class AveragesBeginAsCopies(Relation):
    """A network that a program moves after a trained one, a little with each step, began with the same weights.

    Target networks and momentum encoders are averages of the weights that a trained network has had.
    One that was made with random weights of its own and never set to those of the network that it follows gives random
    targets for as long as the average is slow.
    Judged are networks that are only ever used without gradients, or whose outputs are detached so that no gradient comes
    to them, whose matrices no optimizer steps, have the names and shapes of trained ones, and move in each step: none of
    them equalled its trained one when training began, or ever since. An average that was taken before the first look at it
    is not the same in every bit, and has the same norm.
    A run in which weights were loaded is not judged: it may go on where another one ended. Nor is a copy in another
    precision than what it follows.
    """

    name = "averages-begin-as-copies"
    needs = frozenset({"step", "state", "forward", "load"})
    follows = (looks_of,)
    wakes = frozenset({"exact parameter at before_step", "step", "forward", "load"})
    repeats = 1
    looks = frozenset({"forward", "step", "gradient at before_step"})
    reads = frozenset({"load", "exact parameter at before_step"})
    severity = "warning"
    priority = 15
    cause = "the second network is made like the first one and never given its weights"
    advice = "make it with copy.deepcopy, or load_state_dict of the trained network, before the first step"

    def __init__(self) -> None:
        self._bits: dict[int, list[int]] = {}  # by variable, the fingerprints that it had
        self._norms: dict[int, float | None] = {}  # and the norm that it had at first
        self._moved: Counter[int] = Counter()
        self._first: dict[int, int] = {}  # by variable, when it was first seen
        self._begun: dict[int, int] = {}  # by optimizer, when it made its first step
        self._with_gradients: set[str] = set()
        self._used: set[str] = set()
        self._without: set[int] = set()  # variables without a gradient when they were looked at
        self._taught: set[int] = set()  # and those that had one
        self._loaded = False

    def kept(self) -> object:
        """Nothing: of others it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        self._loaded = self._loaded or bool(window.named("load"))
        if self._loaded:
            return
        for call in window.named("forward"):
            (self._with_gradients if call.context.startswith("grad") else self._used).add(call.object)
        steps = steps_of(window)
        for step in steps:
            self._begun.setdefault(step.optimizer, step.call.q)
        for state in window.states:
            if state.moment == "before_step" and state.what == "gradient":
                without = [norm is None for norm in state.norm]
                self._without.update(compress(state.ids, without))
                self._taught.update(compress(state.ids, map(not_, without)) if any(without) else state.ids)
        for look in looks_of(window):
            self._keep(look)
        last = steps[-1].call if steps else None
        for root, told in _roots(untrained(window, "before_step"), window.run).items():
            detached = all(one.id in self._without and one.id not in self._taught for one in told)
            if (root in self._used and root not in self._with_gradients) or (root in self._with_gradients and detached):
                yield from self._judge(root, told, window.run, last)

    def _keep(self, look: Look) -> None:
        for ident in set(look.ids).difference(self._bits):
            self._first[ident], self._bits[ident] = look.state.q, []
        if look.fresh:
            for ident, norm in zip(look.state.ids, look.state.norm, strict=True):
                self._norms.setdefault(ident, norm)
        self._moved.update(look.moved)
        for ident in look.rested:
            self._moved[ident] = -_MOST_KEPT
        for known, bits in zip(map(self._bits.__getitem__, look.ids), look.bits, strict=True):
            if len(known) > _MOST_KEPT:  # the first ones and the last one
                known[-1] = bits
            else:
                known.append(bits)

    def _in_time(self, one: Variable, other: Variable) -> bool:
        """Whether both of a pair were seen before the trained one was first changed."""
        begun = self._begun.get(other.optimizer, -1)
        return self._first.get(one.id, begun) < begun and self._first.get(other.id, begun) < begun

    def _judge(self, root: str, told: list[Variable], run: Run, call: Call | None) -> Iterator[Example]:
        if any(self._moved.get(one.id, 0) < _INTERVALS for one in told):
            return
        trained: dict[str, dict[_Key, Variable]] = {}
        for one in run.variables.values():
            if one.optimizer in self._begun and one.trainable and one.root != root:
                trained.setdefault(one.root, {})[_key(one)] = one
        pairs = next(
            (
                [(one, known[_key(one)]) for one in told]
                for known in trained.values()
                if all(_key(one) in known for one in told)
            ),
            [],
        )
        if len(pairs) < 2 or not all(self._in_time(one, two) for one, two in pairs):
            return
        apart = [one for one, _ in pairs if not self._met(one, trained)]
        wrong = len(apart) == len(pairs)
        yield Example(
            (),
            not wrong,
            {},
            variables=tuple(one.name for one in apart) if wrong else (),
            expected="the weights of the network that it follows when training begins",
            seen=counted(
                len(apart), "matrix that has nothing in common with it", "matrices that have nothing in common with it"
            )
            if wrong
            else None,
            call=call,
            detail=f"{root} follows a trained network and began with weights of its own" if wrong else "",
        )

    def _met(self, one: Variable, trained: Mapping[str, Mapping[_Key, Variable]]) -> bool:
        """Whether a matrix ever equalled one of its name and shape that is trained, or began with the same norm."""
        own, norm = set(self._bits.get(one.id, ())), self._norms.get(one.id) or 0.0
        others = [known[_key(one)] for known in trained.values() if _key(one) in known]
        begun = [self._norms.get(other.id) or 0.0 for other in others]
        alike = any(begun_alike(norm, size) for size in begun)
        return alike or any(own & set(self._bits.get(other.id, ())) for other in others)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(copied=True)
        yield _run(copied=True, detached=True)
        yield _run(copied=False, apart=1e-7)
        yield _run(copied=True, own_optimizer=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(copied=False)
        yield _run(copied=False, detached=True)
        yield _run(copied=False, own_optimizer=True)


def _key(one: Variable) -> _Key:
    """What a parameter is called within its network, its shape, and its kind: a copy in another precision is rounded."""
    return one.name.removeprefix(one.root), tuple(one.shape), one.dtype


def _roots(states: list[State], run: Run) -> dict[str, list[Variable]]:
    """Matrices that no optimizer steps, by their network."""
    found: dict[str, list[Variable]] = {}
    for state in states:
        for ident in state.ids:
            one = run.variables.get(ident)
            if one is not None and len(one.shape) > 1:
                found.setdefault(one.root, []).append(one)
    return found


def _run(copied: bool, detached: bool = False, apart: float = 0.3, own_optimizer: bool = False) -> list[Window]:
    names = ("online.0.weight", "online.2.weight")
    slow_names = [name.replace("online", "target") for name in names]
    owner = {"optimizer": 1} if own_optimizer else {"optimizer": -1, "trainable": False}
    mini = Mini({**{name: {} for name in names}, **dict.fromkeys(slow_names, owner)})
    windows = []
    for step in range(4):
        own = {name: (1.0 + step, 10 * at + step) for at, name in enumerate(names)}
        start = 100 * step if copied else 500 + 100 * step
        norm = 1.0 if copied else 1.0 + apart
        slow = {name: (norm + step / 9, 10 * at + start) for at, name in enumerate(slow_names)}
        used = (
            ("forward target", {"context": "grad" if detached else "nograd"}),
            ("forward online", {"context": "grad"}),
        )
        none = [("gradients", dict.fromkeys(slow_names), {"optimizer": -1})] if detached else []
        rows = (("before", own, {"optimizer": 0}), ("before", slow, {"optimizer": -1}), *none)
        windows.append(mini.window(*used, "backward", *rows, "step optimizer0:SGD"))
    return windows
