"""What stands in a loss teaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.solving import fitted
from preflight.monitor.window import Window

_VALUE, _REACHED, _ENDS = "term.value", "term.reached", "term.ends"
_SPARE = 3
"""Iterations beyond those that any numbers would fit."""
_KEPT = 16
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
    """What stands in a loss is reached by the backward pass.

    A term that was turned into a number (``item()``, ``detach()``), or is computed from such numbers, still stands in the
    loss that is printed, and teaches nothing.
    Judged are losses of ``torch.nn.functional``, reduced to one number, to which no gradients come. Most of these are
    measures that the program looks at, and nothing is said of them. It is broken where the loss that the backward pass
    began at is added up from such losses alone, and its value holds, to the last digits, a constant share of one to which
    no gradients came. A term that was left out of the sum looks like a measure, or like one that is added only later.
    Nothing is said where the program's text detaches under a condition on how far the training is: it may teach later.
    """

    name = "terms-teach"
    needs = frozenset({"backward", "step", "scalar", _REACHED, "staged"})
    wakes = frozenset({f"scalar {_REACHED}", "staged"})
    severity = "warning"
    priority = 8
    cause = "a term of the loss was turned into a number with item() or detach()"
    advice = "add the tensor of the term itself to the loss that backward() is called on"

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], list[_Sum]] = {}
        self._staged = False

    def see(self, window: Window) -> Iterator[Example]:
        self._staged = self._staged or any((call.args or {})["cuts"] for call in window.named("staged"))
        reached = {one.object: bool(one.value) for one in window.numbers if one.name == _REACHED}
        if not reached:
            return
        values = {one.object: one.value for one in window.numbers if one.name == _VALUE and one.value is not None}
        for word, came in reached.items():
            share = None if came else self._held(word, reached, values, window)
            place, _, function, _ = (word.rsplit("#", 3) + [""] * 3)[:4]
            wrong = share is not None and not self._staged
            yield Example(
                (),
                not wrong,
                {},
                variables=(function, place) if wrong else (),
                expected="a backward pass that reaches it" if wrong else None,
                seen=f"{_times(share or 0)}its value stands in the loss, and no gradients come to it"
                if wrong
                else None,
                call=next(iter(window.named("backward")), None),
                detail=f"The {function} at {place} is computed and teaches nothing" if wrong else "",
            )

    def _held(self, word: str, reached: dict[str, bool], values: dict[str, float], window: Window) -> float | None:
        """With which share the value of a term to which no gradients came stands in the loss; None where it does not."""
        taught = tuple(sorted(one for one, came in reached.items() if came))
        ends = [one.object.rpartition("#")[2] for one in window.numbers if one.name == _ENDS]
        losses = [one.value for one in window.numbers if one.name == "loss"]
        names = "+".join(sorted(name for one in taught for name in one.rpartition("#")[2].split("+")))
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
        yield _run(lambda one, other: one + 0.5 * other, False, staged=True)  # it is detached at first

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(lambda one, other: one + 0.5 * other, False)
        yield _run(lambda one, other: 1.25 * one + other, False, twice=True)


def _share(known: list[_Sum]) -> float | None:
    """The constant share of what was not reached in the loss, where only with it the loss is a sum of the terms."""
    # Terms that are worth the same each time, as the two sides of a quantisation are, stand for one.
    terms = list(dict.fromkeys(zip(*(one.terms for one in known), strict=True)))
    other = tuple(one.other for one in known)
    if len(known) < len(terms) + 1 + _SPARE:
        return None
    losses = [one.loss for one in known]
    allowed = _EXACT * max(abs(one) for one in (*losses, *(value for term in (*terms, other) for value in term)))
    found = fitted([list(row) for row in zip(*terms, other, strict=True)], losses)
    without = fitted([list(row) for row in zip(*terms, strict=True)], losses)
    if found is None or without is None or found.off > allowed or without.off < _CLEAR * allowed:
        return None
    for share, column in zip(found.shares, (*terms, other), strict=True):
        if abs(share) * (max(column) - min(column)) < _CLEAR * allowed:
            return None  # it is not in the loss, or never moved it: the loss may have been given another's value on purpose
    return found.shares[-1]


def _run(total: object, came: bool, ends: str = "", twice: bool = False, staged: bool = False) -> list[Window]:
    """Iterations with two losses, of which the first is reached.

    ``twice`` where a third one is always worth the same as it, ``staged`` where the text detaches the second one at first.
    """
    assert callable(total)
    mini = Mini({"net.trunk.weight": {}, "net.head.weight": {}})
    first, second = "train.py:5#0#cross_entropy#NllLoss", "train.py:6#0#l1_loss#Mean"
    third = "train.py:7#0#cross_entropy#NllLoss"
    names = ["NllLoss", *(["Mean"] if came else []), *(["NllLoss"] if twice else [])]
    found = [mini.window(("staged", {"args": {"cuts": True, "steps": False}}))] if staged else []
    for number in range(7):
        one, other = 1.4 - 0.1 * number + 0.03 * (number % 3), 0.7 + 0.05 * (number * number % 5)
        found.append(
            mini.window(
                ("scalar", _VALUE, first, one),
                ("scalar", _VALUE, second, other),
                *([("scalar", _VALUE, third, one)] if twice else []),
                ("scalar", _ENDS, f"train.py:8#{ends or '+'.join(sorted(names))}", 1.0),
                "backward",
                ("loss", total(one, other)),
                ("gradients", {"net.trunk.weight": 0.5, "net.head.weight": 0.5 if came else None}),
                "step optimizer0:SGD",
                ("scalar", _REACHED, first, 1.0),
                ("scalar", _REACHED, second, float(came)),
                *([("scalar", _REACHED, third, 1.0)] if twice else []),
            )
        )
    return found


def _times(share: float) -> str:
    """How many times something counts, before what it is; nothing where it counts once."""
    told = f"{share:.4g}"
    return "" if told == "1" else f"{told} times "
