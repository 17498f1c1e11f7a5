"""The blank of a CTC loss is none of its labels."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Number, Window
from preflight.vocabulary.quantity import format_share

_SHARE = "targets.blank"


class BlankIsNoLabel(Relation):
    """No label that a CTC loss is to find is the class that it takes as its blank.

    What a model says is read off by leaving out the blanks, so a label that is the blank can never be read, and its sound is
    trained to be silence. ``ctc_loss`` does not complain. The blank is class 0 unless it is given; an alphabet that begins
    at 0 needs another one.
    Judged in the first backward passes of each place in the code; what lies behind the labels of a sample, as padding, does
    not count.
    """

    name = "blank-is-no-label"
    midway = True
    needs = frozenset({"backward", "scalar", _SHARE})
    wakes = frozenset({f"scalar {_SHARE}"})
    whole = False
    priority = 4
    cause = "labels are counted from 0 and blank was not given, or the blank lies within the alphabet"
    advice = "give the alphabet one class more for the blank and name it: CTCLoss(blank=...), or count labels from 1"

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        for number in window.numbers:
            if number.name == _SHARE and number.value is not None:
                begun = next((one for one in reversed(passes) if one.q < number.q), None)
                if begun is not None:
                    yield _judged(number, begun)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.125)


def _judged(number: Number, call: Call) -> Example:
    share = number.value or 0.0
    return Example(
        (),
        not share,
        {},
        variables=("ctc_loss", "blank") if share else (),
        expected="labels other than the blank",
        seen=f"{format_share(share, 1)} of the labels are the blank" if share else None,
        call=call,
        detail="ctc_loss is given labels that are its blank" if share else "",
    )


def _run(share: float) -> list[Window]:
    return [Mini({"model.weight": {}}).window("backward", ("scalar", _SHARE, "train.py:9#CtcLoss", share))]
