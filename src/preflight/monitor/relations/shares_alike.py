"""What held of everything that a loss looks at, or of nothing of it, still does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.window import Window

_LOOKS = 3
"""Looks in a row that must have found the same before it is said."""
_MOST_LOOKS = 8
_SAID = {
    "term.reached": "gradients come to the term {}",
    "labels.moved": "the labels of the batch are in another order than the loader gave them, in {}",
    "outputs.alike": "the samples of a batch give the same output, in {}",
    "tokens.same": "the targets are the tokens at the same position, in {}",
    "tokens.next": "the targets are the next tokens, in {}",
    "tokens.second": "the targets are the tokens after the next ones, in {}",
    "tokens.future": "attention lets a position see the next one, in {}",
    "tokens.attended": "attention lets tokens see the padding, in {}",
    "tokens.learnt": "the padding is a target, in {}",
    "tokens.row": "all positions look up one row of a table, in {}",
    "tokens.straight": "what a position gives goes into what is said there, in {}",
    "tokens.forward": "a layer that knows what was before lies on the way of the tokens, in {}",
    "tokens.turned": "samples and positions change places, in {}",
    "tokens.crosswise": "attention weighs over another axis than it goes over, in {}",
    "tokens.jumbled": "samples and positions change places on every way, in {}",
}
"""Shares that the recorder tells, in words. Those that depend on the scale or on the balance of the data are none of them."""
_WORDS = {0.0: "never", 1.0: "always"}


class SharesAlike(Relation):
    """What held of all that a loss looks at, or of none of it, is not the other way round.

    The recorder tells in detailed iterations which share of the targets are the tokens that were put in, of the padding is
    learnt, of the samples give the same output; whether gradients come to each loss that torch computes, and whether it is
    given the labels of a batch in another order than the loader gave them. Learnt is what
    was none, or all, in the first looks, by the order in which the places in the code come first; against it is
    only what is all where it was none, or none where it was all, because what lies between depends on the data.
    A run that goes on with the state of an optimizer is not judged: a term may begin later in a training.
    """

    name = "shares-alike"
    fields = ("share", "which", "of")
    needs = frozenset({"scalar", "backward", "load_state_dict", *_SAID})
    wakes = frozenset({"backward", "load_state_dict", *(f"scalar {name}" for name in _SAID)})
    severity = "warning"
    priority = 45
    learns = True
    least = 2
    support = 2
    cause = "a term, a mask, a shift or a layout is not what it was in the runs this was learnt from"
    advice = "look at what the loss at this place is given, and at what becomes of it"

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._seen: dict[tuple[str, int, str], set[float]] = {}
        self._looks: dict[tuple[str, int, str], int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window):
            return
        told: dict[tuple[str, int, str], Any] = {}
        for one in window.numbers:
            if one.name not in _SAID or one.value is None:
                continue
            place, _, rest = one.object.partition("#")
            places = self._places.setdefault(one.name, [])
            if place not in places:
                places.append(place)
            key = (one.name, places.index(place), rest)
            looks = self._looks[key] = self._looks.get(key, 0) + 1
            if looks <= _MOST_LOOKS:
                self._seen.setdefault(key, set()).add(one.value)
                told[key] = one
        for key, one in told.items():
            values = self._seen[key]
            if len(values) == 1 and values <= _WORDS.keys() and self._looks[key] >= _LOOKS:
                yield Example(key, True, {}, (one.object,), value=_WORDS[one.value])

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which, of = subject.get("which"), str(subject.get("of") or "")
        place = f"the loss{f' number {which + 1}' if which else ''}{f' ({of})' if of else ''}"
        value = " or ".join(map(str, values_of(subject)))
        return f"It is {value} so that {_SAID[str(subject.get('share'))].format(place)}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0)


def _run(share: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    reached = ("scalar", "term.reached", "train.py:9#0#mse_loss#MseLoss", share)
    return [mini.window("backward", reached, "step optimizer0:SGD") for _ in range(_MOST_LOOKS)]
