"""What a module passes on follows from its weights."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import ORDER, Call, Seen, Window

_STEPS = 3
"""Steps in a row, from the first on, in which the weights of a module have no gradient although its output has."""
_END = itemgetter(Call._fields.index("e"))


class OutputsFollowWeights(Relation):
    """Where a module passes something other than it was given on to what is trained, its own weights have gradients.

    A quantiser passes the entries of its codebook on, and the gradient straight through to what it was given. A loss
    that is to pull the entries and takes that result is a loss of the input alone: the codebook has no part in any graph
    and keeps its first entries, while the model learns around them.
    Judged are modules that call no others, that hold a matrix which an optimizer holds, and that are given something with a
    graph. It is broken where the module that is called next takes in a tensor of the form of their output, with a graph,
    and has gradients, where the output is other than what went in, and where none of the module's parameters ever has a
    gradient, in three steps. What the program moves itself, as codes that follow averages, is none of these.
    """

    name = "outputs-follow-weights"
    needs = frozenset({"step", "state", "module", "tensor"})
    follows = (looks_of,)
    wakes = frozenset({"gradients of a step"})
    priority = 9
    cause = (
        "a loss on the weights takes the result of the straight-through step, whose gradient goes to the input alone"
    )
    advice = "compute the losses of the codebook from its entries, before the straight-through step replaces them"

    def __init__(self) -> None:
        self._next: dict[str, str] = {}  # by module that passes something else on: the one that it is passed to
        self._missed: dict[str, int] = {}
        self._had: set[str] = set()  # modules of which a parameter had a gradient, or was moved by the program
        self._told: set[str] = set()  # of these, such as were told of
        self._without: set[int] = set()  # variables that had no gradient at the last step

    def see(self, window: Window) -> Iterator[Example]:
        if window.named("module"):
            self._next.update(_passed(window))
        if not self._next:
            return
        variables = window.run.variables
        for look in looks_of(window):
            for ident in self._without.intersection(look.moved):
                self._had.update(_around(variables[ident].name))
        for step in steps_of(window):
            if step.gradients is not None and not step.closure:
                yield from self._judge(step, window)

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        assert step.gradients is not None
        variables = window.run.variables
        told = dict(zip(step.gradients.ids, step.gradients.norm, strict=True))
        self._without = {ident for ident, norm in told.items() if norm is None}
        taught = {part for ident, norm in told.items() if norm is not None for part in _around(variables[ident].name)}
        self._had |= taught
        for name, after in self._next.items():
            if name in self._told:
                continue
            held = [ident for ident in told if name in _around(variables[ident].name)]
            if after not in taught or not any(len(variables[ident].shape) > 1 for ident in held):
                continue
            if name in self._had:
                self._told.add(name)
            missed = self._missed[name] = 0 if name in self._had else self._missed.get(name, 0) + 1
            if not missed or missed >= _STEPS:
                yield _example(step.call, name, after, [variables[ident].name for ident in held], missed == 0)

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
