"""What a loss is added up from teaches the layers that say it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.flow import Flow, flow_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.tails import Tail
from preflight.monitor.window import Window

_VALUE, _REACHED = "term.value", "term.reached"
_TIMES = 2
"""Steps without a gradient, from the first on, after which a layer is one that never gets any."""
_LOOKS = 3
_CLEAR = 1e-4
"""How far apart the rests of a loss must lie, as a share of the largest number in it: far beyond rounding."""


class AddedPartsTeach(Relation):
    """A part of a loss that is another number in each step has gradients, where a layer waits for some.

    A term that is computed from detached outputs, or in numpy, still stands in the loss that is printed: it falls or does
    not, as what it is added to has it. The layers that said these outputs keep their first values.
    Judged where a loss is a sum, without weights, of losses of ``torch.nn.functional`` and of something that has no
    gradients, and where gradients come to all of these losses. It is broken where what is left of the loss without them is
    another number in each of three steps, and a layer that an optimizer holds took part in two steps at least, with
    gradients recorded, and never got any. A layer whose output is not used, and a number that is added on purpose, are none
    by themselves; nor is a part that the program's text detaches under a condition on how far the training is.
    """

    name = "added-parts-teach"
    needs = frozenset({"backward", "step", "state", "module", "forward", "tensor", "scalar", _REACHED, "staged"})
    follows = (flow_of,)
    wakes = frozenset({f"scalar {_REACHED}", "staged"})
    severity = "warning"
    priority = 10
    cause = "a term of the loss is made of outputs that were detached, copied to numpy, or run without gradients"
    advice = "make the term of the output itself; detach it only where it is compared for choosing or measuring"

    def __init__(self) -> None:
        self._flow = Flow()
        self._sums: dict[str | None, list[str] | None] = {}  # by backward pass, of which losses its loss is added up
        self._rests: dict[str | None, list[float]] = {}
        self._staged = False
        self._had: set[int] = set()
        self._without: dict[str, int] = {}  # by module, in how many steps it took part and had no gradients
        self._ended = -1

    def see(self, window: Window) -> Iterator[Example]:
        self._flow = flow_of(window)
        self._staged = self._staged or any((call.args or {})["cuts"] for call in window.named("staged"))
        for step in steps_of(window):
            if step.gradients is not None and not step.closure:
                self._count(step, window)
        self._ended = max((call.e for call in window.named("step")), default=self._ended)
        passes = window.named("backward")
        for call in passes:
            told = (call.args or {}).get("tail")
            if told:
                self._sums[call.place] = _added(Tail(told))
        if len(passes) != 1 or not self._sums.get(passes[0].place):
            return
        call = passes[0]
        rests = self._rest(call.place, window)
        if rests is None:
            return
        idle = (
            sorted(one for one, times in self._without.items() if times >= _TIMES)
            if _vary(rests) and not self._staged
            else []
        )
        yield Example(
            (),
            not idle,
            {},
            variables=tuple(idle),
            expected="gradients of the layers that say what is added" if idle else None,
            seen=f"a part of the loss without gradients, {rests[-1]:.4g} in this step" if idle else None,
            call=call,
            detail="A part is added to the loss that has no gradients, and layers that took part never get any"
            if idle
            else "",
        )

    def _count(self, step: Step, window: Window) -> None:
        """Note which modules of an optimizer took part and have no gradients."""
        assert step.gradients is not None
        if not self._without and None not in step.gradients.norm:
            self._had.update(step.gradients.ids)
            return
        since = step.since if step.since >= 0 else self._ended
        apart = {call.object for call in window.named("module") if not call.context.startswith("grad")}
        lost: dict[str, bool] = {}  # by module, whether none of its parameters has a gradient
        for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
            module = window.run.name(ident).rpartition(".")[0]
            if norm is not None:
                self._had.add(ident)
            lost[module] = lost.get(module, True) and norm is None and ident not in self._had
        for module, nothing in lost.items():
            if not nothing:
                self._without.pop(module, None)
            elif module and module not in apart and self._flow.between(module, since, step.call.q):
                self._without[module] = self._without.get(module, 0) + 1

    def _rest(self, place: str | None, window: Window) -> list[float] | None:
        """What was left of the loss without the losses that gradients came to, so far; None where that is not known."""
        values = {one.object: one.value for one in window.numbers if one.name == _VALUE}
        reached = [one.object for one in window.numbers if one.name == _REACHED and one.value]
        losses = [one.value for one in window.numbers if one.name == "loss"]
        names = sorted(one.rpartition("#")[2] for one in reached)
        if names != self._sums[place] or len(losses) != 1 or losses[0] is None:
            return None
        parts = [values.get(one) for one in reached]
        known = [one for one in parts if one is not None]
        if len(known) < len(parts):
            return None
        rests = self._rests.setdefault(place, [])
        rests.append(losses[0] - sum(known))
        del rests[:-_LOOKS]
        scale = max(abs(losses[0]), *map(abs, known))
        return [0.0 if abs(one) <= _CLEAR * scale else one for one in rests]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        # A layer whose output is not used, beside a loss that is added up from nought.
        yield _run(lambda one, number: one, None)
        yield _run(lambda one, number: one + 0.5, None)
        yield _run(lambda one, number: one + 0.1 * number, 0.5)  # a number that was measured
        yield _run(lambda one, number: one + 0.1 * number, None, apart=True)
        yield _run(lambda one, number: one + 0.7 + 0.1 * number, None, staged=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(lambda one, number: one + 0.7 + 0.1 * number, None)


def _added(tail: Tail) -> list[str] | None:
    """The names of what a loss is the plain sum of, where something without gradients is a part of it, too."""
    names, waiting, offset = [], [0], False
    for place in waiting:  # grows as it goes
        node = tail.nodes[place]
        if node.shape != []:
            return None
        if node.name != "Add":
            names.append(node.name)
            continue
        offset = offset or -1 in node.below
        waiting += [one for one in node.below if one >= 0]
    return sorted(names) if offset else None


def _vary(rests: list[float]) -> bool:
    """Whether what is left of a loss is another number each time."""
    if len(rests) < _LOOKS or 0.0 in rests:
        return False
    allowed = _CLEAR * max(map(abs, rests))
    ordered = sorted(rests)
    return all(second - first > allowed for first, second in pairwise(ordered))


def _run(total: Any, norm: float | None, apart: bool = False, staged: bool = False) -> list[Window]:
    """Steps of a model with two heads, of which the second has gradients of this norm."""
    names = ("net.body", "net.first", "net.second")
    mini = Mini({f"{name}.weight": {} for name in names})
    word = "train.py:5#0#cross_entropy#NllLoss"
    tail: list[Any] = [["Add", [], None, [1, -1]], ["NllLoss", [], None, [2]]]
    tail += [["LogSoftmax", [8, 4], 1, [3]], ["Addmm", [8, 4], None, []]]
    found = [mini.window(("staged", {"args": {"cuts": True, "steps": False}}))] if staged else []
    for number in range(5):
        value = 1.4 - 0.1 * number + 0.03 * (number % 3)
        inside = [(f"module {name}", {"context": "nograd" if apart and name == names[2] else "grad"}) for name in names]
        found.append(
            mini.window(
                ("forward net", {"inside": inside, "args": {"training": True}}),
                ("scalar", _VALUE, word, value),
                ("backward", {"args": {"tail": tail}, "place": "train.py:8"}),
                ("loss", total(value, number)),
                ("gradients", {f"{name}.weight": 0.5 if name != names[2] else norm for name in names}),
                "step optimizer0:SGD",
                ("scalar", _REACHED, word, 1.0),
            )
        )
    return found
