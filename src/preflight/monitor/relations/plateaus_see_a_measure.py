"""A plateau is judged by a measure, and by which way of it is better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_IN_A_ROW = 3
_LESS = frozenset({"loss", "losses", "error", "err", "mse", "rmse", "mae", "nll", "perplexity", "ppl", "wer", "cer"})
_MORE = frozenset({"acc", "accuracy", "auc", "auroc", "iou", "miou", "dice", "psnr", "bleu", "precision", "recall"})
_TURNING = frozenset({"neg", "negative", "minus", "inv", "inverse", "inverted", "gain", "drop", "improvement", "one"})
"""Words of a name by which what is better may be turned round."""


class PlateausSeeAMeasure(Relation):
    """A scheduler that waits for a plateau is told a measure, not the number of the epoch.

    Other schedulers were given the epoch in ``step(epoch)``; ``ReduceLROnPlateau.step`` takes what is to get better. The
    number of the epoch never does, when less is better: the rate falls again and again however well the training goes.
    When more is better it always does, and the rate never falls.
    Judged from the third call on: each number was the count of calls so far, from nought or from one.
    Nor does a scheduler wait for a loss to rise, or for an accuracy to fall: judged where the program calls by such a name
    what it hands over as it is, at each call; and where that is a plain number, only while it is better, by its name, than at
    the first call.
    """

    name = "plateaus-see-a-measure"
    needs = frozenset({"scheduler.step"})
    wakes = frozenset({"scheduler.step"})
    whole = False
    priority = 20
    cause = "scheduler.step(epoch), as other schedulers take it, was called on a ReduceLROnPlateau, or its mode is that of another measure"
    advice = "hand step() the loss or the score of the evaluation, and set mode to what is better of it"

    def __init__(self) -> None:
        self._counted: dict[tuple[str, object], tuple[float, int]] = {}  # by scheduler: the distance, and how often
        self._first: dict[tuple[str, object], float] = {}  # by scheduler: the first measure

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            told = call.args or {}
            better, mode = _better(str(told.get("called", ""))), told.get("mode")
            measure, count = told.get("measure"), told.get("count")
            number = measure if isinstance(measure, (int, float)) else None
            key = call.object, told.get("index")
            if better and mode in ("min", "max") and better != mode and self._gets_better(key, number, better):
                yield _turned(call, str(told["called"]), mode)
                continue
            if number is None or not isinstance(count, int):
                continue
            distance = number - count
            before, times = self._counted.get(key, (None, 0))
            times = times + 1 if distance in (0, 1) and before in (None, distance) else 0
            self._counted[key] = distance, times
            yield _example(call, number, times >= _IN_A_ROW)

    def _gets_better(self, key: tuple[str, object], number: float | None, better: str) -> bool:
        """Whether a measure goes the way that its name calls better, as far as it is known: names may mislead."""
        if number is None:
            return True
        first = self._first.setdefault(key, number)
        return number < first if better == "min" else number > first

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _judged([0.0, 1.0, 1.5, 3.0])
        yield _judged([12, 13, 14, 15])
        yield _judged([0.9, 0.7], called="val_loss", mode="min")
        yield _judged([0.1, 0.2], called="accuracy", mode="max")
        yield _judged([-0.9, -0.7], called="neg_loss", mode="max")
        yield _judged([0.9, 0.7], called="loss_acc", mode="min")  # accumulated
        yield _judged([0.9, 0.7, 0.6], called="dice", mode="min")  # a loss by that name

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _judged([0, 1, 2])
        yield _judged([1, 2, 3])
        yield _judged([0.9, 0.7], called="val_loss", mode="max")
        yield _judged([0.1, 0.2], called="valAcc", mode="min")


def _better(called: str) -> str:
    """Whether of a measure of this name less or more is better; nothing where the name does not say."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", called)]
    if not words or any(word in _TURNING for word in words):
        return ""
    if words[-1] in _LESS:
        return "min"
    return "max" if words[-1] in _MORE and not any(word in _LESS for word in words) else ""


def _turned(call: Call, called: str, mode: str) -> Example:
    less = mode == "max"
    return Example(
        (),
        False,
        {"scheduler": call.object},
        variables=(call.object, called),
        expected=f'mode="{"min" if less else "max"}" for {called}',
        seen=f'mode="{mode}"',
        call=call,
        detail=f"{call.object} waits for {called} to {'rise' if less else 'fall'}",
    )


def _example(call: Call, measure: float, wrong: bool) -> Example:
    return Example(
        (),
        not wrong,
        {"scheduler": call.object},
        variables=(call.object,) if wrong else (),
        expected="a loss or a score",
        seen=f"{measure:g}, the number of the epoch, as in all calls before" if wrong else None,
        call=call,
        detail=f"{call.object} is told the number of the epoch, not a measure" if wrong else "",
    )


def _judged(measures: Sequence[float], **more: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window(
            "backward",
            "step optimizer0:SGD",
            ("scheduler.step ReduceLROnPlateau", {"args": {"index": 0, "count": count, "measure": measure, **more}}),
        )
        for count, measure in enumerate(measures)
    ]
