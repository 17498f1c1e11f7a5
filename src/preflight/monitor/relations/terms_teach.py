"""Every term of a loss teaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import is_
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.solving import fitted
from preflight.monitor.window import Window

_VALUE, _REACHED, _UNDER, _ENDS = "term.value", "term.reached", "term.under", "term.ends"
_LOOKS = 3
"""Looks in a row in which a loss is computed from parameters that nothing teaches."""
_SPARE = 3
"""Iterations beyond those that any numbers would fit."""
_KEPT = 16
_MOST_PATTERNS = 64
_EXACT = 6e-7
"""What rounding may make of a sum of losses, as a share of the largest."""
_CLEAR = 40
"""How many times that a term must move a loss, to be seen in it."""


class _Sum(NamedTuple):
    """One iteration: the loss that the backward pass began at, the losses that gradients came to, and one to which none did."""

    loss: float
    terms: tuple[float, ...]
    other: float


class TermsTeach(Relation):
    """What is added to a loss, or made to train a part of a model, is reached by the backward pass.

    A term that was turned into a number (``item()``, ``detach()``) still stands in the loss that is printed, and teaches
    nothing; a term that was left out of the sum does neither.
    Judged are losses of ``torch.nn.functional``, reduced to one number, to which no gradients come. Most of these are
    measures that the program looks at, and nothing is said of them. It is broken where the loss that the backward pass
    began at is added up from such losses alone, and its value holds, to the last digits, a constant share of one to which
    no gradients came; and where a loss is computed, three looks in a row, from parameters that their optimizer has stepped
    without a gradient and that never had one: no other loss trains that part of the model. One that is to be trained only
    later, and is measured with its graph until then, looks the same.
    """

    name = "terms-teach"
    needs = frozenset({"backward", "step", "state", "scalar", _REACHED})
    wakes = frozenset({f"scalar {_REACHED}", "gradient at before_step"})
    severity = "warning"
    priority = 8
    cause = "a term of the loss was turned into a number with item() or detach(), or was not added to the sum"
    advice = "add the tensor of the term itself to the loss that backward() is called on"

    def __init__(self) -> None:
        self._had: set[int] = set()  # parameters that had a gradient at a step of their optimizer
        self._without: set[int] = set()  # and such as had none
        self._patterns: set[tuple[object, ...]] = set()  # which of them had none, as it was seen before
        self._under: dict[str, int] = {}  # by term: looks in a row in which it alone could have taught something
        self._sums: dict[tuple[str, ...], list[_Sum]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.states:
            if state.moment == "before_step" and state.what == "gradient":
                self._note(state.ids, state.norm)
        reached = {one.object: bool(one.value) for one in window.numbers if one.name == _REACHED}
        if not reached:
            return
        under: dict[str, list[int]] = {}
        for number in window.numbers:
            if number.name == _UNDER and number.value is not None and int(number.value) not in self._had:
                under.setdefault(number.object, []).append(int(number.value))
        values = {one.object: one.value for one in window.numbers if one.name == _VALUE and one.value is not None}
        for word, came in reached.items():
            if came:
                self._under.pop(word, None)
                yield Example((), True, {})
            else:
                yield self._judge(word, under.get(word, []), self._held(word, reached, values, window), window)

    def _note(self, ids: list[int], norms: Sequence[float | None]) -> None:
        """Remember which parameters had a gradient at a step, and which had none."""
        pattern = (*ids[:1], *ids[-1:], bytes(map(is_, norms, repeat(None))))
        if pattern in self._patterns:
            return
        if len(self._patterns) < _MOST_PATTERNS:
            self._patterns.add(pattern)
        for ident, norm in zip(ids, norms, strict=True):
            (self._without if norm is None else self._had).add(ident)

    def _judge(self, word: str, under: list[int], share: float | None, window: Window) -> Example:
        variables = window.run.variables
        untaught = [one for one in under if one in self._without and one in variables and variables[one].trainable]
        self._under[word] = self._under.get(word, 0) + 1 if untaught else 0
        place, _, function, _ = (word.rsplit("#", 3) + [""] * 3)[:4]
        named = tuple(window.run.name(one) for one in untaught) if self._under[word] >= _LOOKS else ()
        wrong = bool(named) or share is not None
        if share is not None:
            seen = f"{share:.4g} times its value stands in the loss, and no gradients come to it"
        else:
            seen = f"no gradients come to it, and {len(named)} parameters that it is computed from never had any"
        return Example(
            (),
            not wrong,
            {},
            variables=(*named, function, place) if wrong else (),
            expected="a backward pass that reaches it" if wrong else None,
            seen=seen if wrong else None,
            call=next(iter(window.named("backward")), None),
            detail=f"The {function} at {place} is computed and teaches nothing" if wrong else "",
        )

    def _held(self, word: str, reached: dict[str, bool], values: dict[str, float], window: Window) -> float | None:
        """With which share the value of a term to which no gradients came stands in the loss; None where it does not."""
        taught = tuple(sorted(one for one, came in reached.items() if came))
        ends = [one.object.rpartition("#")[2] for one in window.numbers if one.name == _ENDS]
        losses = [one.value for one in window.numbers if one.name == "loss"]
        names = "+".join(sorted(one.rpartition("#")[2] for one in taught))
        if len(window.named("backward")) != 1 or ends != [names] or len(losses) != 1 or losses[0] is None:
            return None  # also where nothing is known to be in the loss, or more than is known
        if any(one not in values for one in (word, *taught)):
            return None
        known = self._sums.setdefault((word, *taught), [])
        known.append(_Sum(losses[0], tuple(values[one] for one in taught), values[word]))
        del known[:-_KEPT]
        return _share(known)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(lambda one, other: one + 0.5 * other, True)
        yield _run(lambda one, other: one, False)  # a measure that is looked at
        yield _run(lambda one, other: one + 0.5 * other, False, ends="MeanBackward")  # something else is in the loss
        yield _run(lambda one, other: one, False, under=1, gradient=0.5)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(lambda one, other: one + 0.5 * other, False)
        yield _run(lambda one, other: one, False, under=1)


def _share(known: list[_Sum]) -> float | None:
    """The constant share of what was not reached in the loss, where only with it the loss is a sum of the terms."""
    count = len(known[0].terms)
    if len(known) < count + 1 + _SPARE:
        return None
    losses = [one.loss for one in known]
    allowed = _EXACT * max(abs(one) for one in (*losses, *(part for row in known for part in (*row.terms, row.other))))
    found = fitted([[*one.terms, one.other] for one in known], losses)
    without = fitted([list(one.terms) for one in known], losses)
    if found is None or without is None or found.off > allowed or without.off < _CLEAR * allowed:
        return None
    for at, share in enumerate(found.shares):
        column = [(*one.terms, one.other)[at] for one in known]
        if abs(share) * (max(column) - min(column)) < _CLEAR * allowed:
            return None  # it is not in the loss, or never moved it: the loss may have been given another's value on purpose
    return found.shares[-1]


def _run(
    total: object, came: bool, under: int | None = None, ends: str = "", gradient: float | None = None
) -> list[Window]:
    """Six iterations with two losses, of which the first is reached."""
    assert callable(total)
    mini = Mini({"net.trunk.weight": {}, "net.head.weight": {}})
    first, second = "train.py:5#0#cross_entropy#NllLoss", "train.py:6#0#l1_loss#Mean"
    names = ["NllLoss", "Mean"] if came else ["NllLoss"]
    found = []
    for number in range(7):
        one, other = 1.4 - 0.1 * number + 0.03 * (number % 3), 0.7 + 0.05 * (number * number % 5)
        rows = [("scalar", _UNDER, second, float(under))] if under is not None and number else []
        found.append(
            mini.window(
                ("scalar", _VALUE, first, one),
                ("scalar", _VALUE, second, other),
                ("scalar", _ENDS, f"train.py:8#{ends or '+'.join(sorted(names))}", 1.0),
                "backward",
                ("loss", total(one, other)),
                ("gradients", {"net.trunk.weight": 0.5, "net.head.weight": 0.5 if came else gradient}),
                "step optimizer0:SGD",
                ("scalar", _REACHED, first, 1.0),
                ("scalar", _REACHED, second, float(came)),
                *rows,
            )
        )
    return found
