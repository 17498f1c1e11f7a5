"""What a module passes on follows from its weights."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import ORDER, Call, Seen, State, Window

_STEPS = 12
"""Steps in a row, from the first on, in which the weights of a module have no gradient although its output has."""
_LOOKS = 4
"""Windows with calls of a module in which it is looked at what it passes on."""
_MOST_SETS = 32
"""Sets of variables, one for each optimizer, of which it is kept what is asked of them."""
_END = itemgetter(Call._fields.index("e"))


class _Asked(NamedTuple):
    """A module that passes something else on.

    Attributes:
        name: Its name. after: That of the module that takes it in.
        own: The places of its parameters among those whose gradients were looked at. behind: Those of the other one.
    """

    name: str
    after: str
    own: list[int]
    behind: list[int]


class OutputsFollowWeights(Relation):
    """Where a module passes something other than it was given on to what is trained, its own weights have gradients.

    A quantiser passes the entries of its codebook on, and the gradient straight through to what it was given. A loss
    that is to pull the entries and takes that result is a loss of the input alone: the codebook has no part in any graph
    and keeps its first entries, while the model learns around them.
    Judged are modules that call no others, that hold a matrix which an optimizer holds, and that are given something with a
    graph. It is broken where the module that is called next takes in a tensor of the form of their output, with a graph,
    and has gradients, where the output is other than what went in, and where none of the module's parameters ever has a
    gradient, in twelve steps. What the program moves itself, as codes that follow averages, is none of these. A plan may
    come to train the weights later, so that it is a warning.
    """

    name = "outputs-follow-weights"
    needs = frozenset({"step", "state", "module", "tensor"})
    follows = (looks_of,)
    wakes = frozenset({"gradients of a step"})
    severity = "warning"
    priority = 9
    cause = (
        "a loss on the weights takes the result of the straight-through step, whose gradient goes to the input alone"
    )
    advice = "compute the losses of the codebook from its entries, before the straight-through step replaces them"

    def __init__(self) -> None:
        self._next: dict[str, str] = {}  # by module that passes something else on: the one that it is passed to
        # Of these, such as an optimizer holds a matrix of, by the variables whose gradients are looked at together.
        self._asked: dict[tuple[int, ...], list[_Asked]] = {}
        self._looks: dict[str, int] = {}  # windows in which a module was called
        self._known: set[str] = set()  # modules that were called in enough of them
        self._missed: dict[str, int] = {}
        self._had: set[int] = set()  # variables that had a gradient, or were moved by the program without one
        self._told: set[str] = set()  # modules of which nothing more is to be said
        self._without: set[int] = set()  # variables of those asked that had no gradient at the last step

    def see(self, window: Window) -> Iterator[Example]:
        if self._has_new(window):
            passed = {name: after for name, after in _passed(window) if name not in self._told}
            if not passed.items() <= self._next.items():
                self._next.update(passed)
                self._asked.clear()
        if self._without:
            for look in looks_of(window):
                self._had |= self._without.intersection(look.moved)
        for step in steps_of(window):
            if step.gradients is not None and not step.closure:
                yield from self._judge(step, step.gradients, window)

    def _has_new(self, window: Window) -> bool:
        """Whether modules are called that were not looked at in several windows yet: what they pass on stays what it is."""
        called = {call.object for call in window.named("module")}
        fresh = called - self._known
        for name in fresh:
            self._looks[name] = self._looks.get(name, 0) + 1
            if self._looks[name] >= _LOOKS:
                self._known.add(name)
        return bool(fresh)

    def _judge(self, step: Step, gradients: State, window: Window) -> Iterator[Example]:
        ids, norms = gradients.ids, gradients.norm
        key = tuple(ids)
        known = self._asked.get(key)
        if known is not None and not known and gradients.sound:
            return
        self._had.update(ident for ident, norm in zip(ids, norms, strict=True) if norm is not None)
        if known is None:
            if len(self._asked) >= _MOST_SETS:
                self._asked.clear()
            known = self._asked[key] = self._of(ids, window)
        self._without = {ids[at] for one in known for at in one.own if norms[at] is None}
        for one in [one for one in known if any(norms[at] is not None for at in one.behind)]:
            had = any(ids[at] in self._had for at in one.own)
            missed = self._missed[one.name] = 0 if had else self._missed.get(one.name, 0) + 1
            if had:
                self._told.add(one.name)
                self._next.pop(one.name, None)
                known.remove(one)
            if not missed or missed >= _STEPS:
                names = [window.run.variables[ids[at]].name for at in one.own]
                yield _example(step.call, one.name, one.after, names, missed == 0)

    def _of(self, ids: list[int], window: Window) -> list[_Asked]:
        """The modules that are asked of, with the places of their parameters among those of an optimizer."""
        inside: dict[str, list[int]] = {}
        for at, ident in enumerate(ids):
            for module in _around(window.run.variables[ident].name):
                inside.setdefault(module, []).append(at)
        matrices = {at for at, ident in enumerate(ids) if len(window.run.variables[ident].shape) > 1}
        found = (_Asked(name, after, inside.get(name, []), inside.get(after, [])) for name, after in self._next.items())
        return [one for one in found if one.behind and not matrices.isdisjoint(one.own)]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _quantised({"model.codes.book": 0.1})
        yield [*_quantised({}, 2), *_quantised({"model.codes.book": 0.1}, 4)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _quantised({})


def _around(name: str) -> list[str]:
    """The modules that a variable lies in, by their paths."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _passed(window: Window) -> Iterator[tuple[str, str]]:
    """Modules without others in them, given a graph, that pass another tensor on, and the module that takes it in."""
    calls = sorted(window.named("module"), key=ORDER)
    ended = sorted(calls, key=_END)
    ends = list(map(_END, ended))
    given = {one.call: one for one in window.tensors if one.position == "in0" and one.requires_grad}
    made = {one.call: one for one in window.tensors if one.position == "out0" and one.requires_grad}
    for call, after in pairwise(calls):
        out, taken = made.get(call.q), given.get(after.q)
        if after.q < call.e or call.q not in given or out is None or taken is None:
            continue
        at = bisect_left(ends, call.q)
        before = made.get(ended[at - 1].q) if at else None
        if _alike(out, taken) and before is not None and _changes(before, given[call.q], out):
            yield call.object, after.object


def _alike(one: Seen, other: Seen) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def _changes(before: Seen, given: Seen, out: Seen) -> bool:
    """Whether a module that was given the output of the one before makes another tensor of it."""
    if not _alike(before, given) or before.norm is None or out.norm is None:
        return False
    return out.norm != before.norm


def _example(call: Call, name: str, after: str, held: list[str], holds: bool) -> Example:
    return Example(
        (),
        holds,
        {},
        variables=() if holds else tuple(held),
        expected=f"gradients of the weights of {name}, whose output {after} is trained on",
        seen=None if holds else f"none in {_STEPS} steps",
        call=call,
        detail="" if holds else f"The weights of {name} have no part in the graph of what it passes on to {after}",
    )


_PASSED: dict[str, dict[str, float | None]] = {
    "encoder": {"out0": 3.0},
    "codes": {"in0": None, "out0": 2.0},
    "decoder": {"in0": None, "out0": 1.0},
}
"""What goes into the parts of a small model and comes out of them, as norms, where they are known."""


def _quantised(gradients: dict[str, float], steps: int = _STEPS) -> list[Window]:
    mini = Mini({"model.encoder.weight": {}, "model.codes.book": {"shape": [4, 2]}, "model.decoder.weight": {}})
    taught = {"model.encoder.weight": 0.5, "model.codes.book": None, "model.decoder.weight": 0.5, **gradients}
    passes = (f"module model.{part}" for part in _PASSED)
    rows = [*passes, "backward", ("gradients", taught), "step optimizer0:SGD"]
    windows = []
    for _ in range(steps):
        first = mini.window(*rows)
        for call in first.named("module"):
            for position, norm in _PASSED[call.object.rpartition(".")[2]].items():
                seen = {"object": call.object, "position": position, "norm": norm, "call": call.q}
                first.tensors += mini.window(("tensor", seen)).tensors
        windows.append(first)
    return windows
