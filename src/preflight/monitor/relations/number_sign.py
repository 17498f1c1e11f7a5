"""A loss that is never negative stays so."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_SPAN = 12
_SETTLED = 0.97
_CLEAR = 3.0
_JOINED = frozenset(
    "Add Mul Div Mean Sum ToCopy View UnsafeView ReshapeAlias Squeeze Unsqueeze Stack Cat Select Clone Alias Expand".split()
)
"""Operations that put losses together, or weigh them."""
_POSITIVE = ("NllLoss", "BinaryCrossEntropy", "MseLoss", "SmoothL1Loss", "L1Loss", "Abs", "HuberLoss", "CtcLoss")


class NumberSign(Relation):
    """A loss that settled above zero is not below zero.

    Learnt for each loss; those of different places in the code are told apart by their order of appearance, so that the
    lines may move. While a loss falls it tells nothing of where it ends, and many may end below zero: it counts where the
    mean of twelve values is no longer below that of the twelve before, and lies three of their standard deviations above zero.
    What an actor is to make small swings about any value, and may have been above zero all along by chance: so it counts
    only of losses that are sums and means of such as cannot be below zero where they are given what they are made for.
    """

    name = "number-sign"
    fields = ("number", "which")
    needs = frozenset({"scalar", "backward"})
    wakes = frozenset({"scalar loss"})
    severity = "warning"
    priority = 48
    learns = True
    cause = "the loss is computed in another way than in the runs this was learnt from, such as from values that are no logarithms"
    advice = "look at how the loss is computed at the place that is named, and at what is handed to it"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._values: dict[int, deque[float]] = {}
        self._made: dict[str, bool] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            tail = (call.args or {}).get("tail")
            if tail and call.place:
                self._made[call.place] = self._made.get(call.place, True) and _cannot_be_below_zero(tail)
        for one in window.numbers:
            if one.name != "loss" or one.value is None or one.value != one.value:
                continue
            which = self._places.setdefault(one.object, len(self._places))
            values = self._values.setdefault(which, deque(maxlen=2 * _SPAN))
            values.append(one.value)
            holds = one.value >= 0
            if holds and not (self._settled(values) and self._positive(one.object)):
                continue
            passes = window.named("backward")
            yield Example(
                ("loss", which),
                holds,
                {},
                ("loss",),
                expected="a loss that is not below zero",
                seen=None if holds else one.value,
                call=passes[0] if passes else None,
            )

    def _positive(self, place: str) -> bool:
        """Whether the loss of a place is known to be made of what cannot be below zero."""
        found = [made for known, made in self._made.items() if known == place or known.endswith(f"/{place}")]
        return bool(found) and all(found)

    @staticmethod
    def _settled(values: deque[float]) -> bool:
        """Whether the loss no longer falls, and lies clear of zero."""
        if len(values) < 2 * _SPAN:
            return False
        first, last = list(values)[:_SPAN], list(values)[_SPAN:]
        mean = sum(last) / _SPAN
        spread = sqrt(sum((one - mean) * (one - mean) for one in last) / _SPAN)  # a square by power may overflow
        return mean >= max(_SETTLED * sum(first) / _SPAN, _CLEAR * spread)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which = subject.get("which")
        return f"The loss{f' number {which + 1}' if which else ''} is never below zero"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.5] * 32)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.5] * 32 + [-0.5])


def _cannot_be_below_zero(tail: Sequence[Sequence[Any]]) -> bool:
    """Whether a loss is put together of losses that are not below zero, down from its end."""
    waiting = [0]
    for place in waiting:
        name, _, _, below, *_ = tail[place]
        if name.startswith(_POSITIVE):
            continue
        known = [one for one in below if one >= 0]
        if name not in _JOINED or not known:
            return False
        waiting += [one for one in known if one not in waiting]
    return True


def _run(losses: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told: Any = ("backward", {"args": {"tail": [["NllLoss", [], None, []]]}})
    return [mini.window(told, ("loss", loss), "step optimizer0:SGD") for loss in losses]
