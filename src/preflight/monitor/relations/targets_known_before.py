"""What a loss is to find was there before the model was asked."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_FRESH = "targets.fresh"


class TargetsKnownBefore(Relation):
    """A model is not asked to find random numbers that are drawn after it has answered.

    A model that is to find the noise in what it is given, as in diffusion, needs for its loss the noise that was put in.
    Where noise is drawn once more for the loss, nothing that the model sees tells of it: the best answer is nought, and the
    loss falls to the variance of the noise and stays there.
    Judged in the first backward passes of each place in the code, for losses that compare numbers (mean squared, Huber,
    smooth L1) with normal numbers: the targets must be, number for number, what the generator drew next after the model's
    output, in two backward passes. Numbers that something was made of since are others, and not meant; nor is a program that
    draws the input of the model as well, to try out how it runs.
    """

    name = "targets-known-before"
    needs = frozenset({"backward", "scalar", "targets.outside", _FRESH})
    wakes = frozenset({f"scalar {_FRESH}"})
    repeats = 2
    looks = frozenset({"backward"})
    reads = frozenset({f"scalar {_FRESH}"})
    whole = False
    priority = 4
    cause = "randn_like is called once for the input and once more for the loss"
    advice = "draw the noise once, before the model is called, and use the same tensor as the target"

    def __init__(self) -> None:
        self._before: dict[str, bool] = {}

    def kept(self) -> object:
        return tuple(sorted(self._before.items()))

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _FRESH or number.value is None:
                continue
            fresh = number.value > 0
            wrong = fresh and self._before.get(number.object, False)
            self._before[number.object] = fresh
            word = number.object.rpartition("#")[2]
            call = next((one for one in reversed(window.named("backward")) if one.q < number.q), None)
            yield Example(
                (),
                not wrong,
                {"loss": word},
                variables=(word,) if wrong else (),
                expected="targets that are made before the model is called" if wrong else None,
                seen="random numbers that were drawn after the model's output" if wrong else None,
                call=call,
                detail=f"What {word} is to find was drawn at random after the model had answered" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 0.0)
        yield _run(1.0, 0.0, 1.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1.0, 1.0)


def _run(*fresh: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("backward", ("scalar", _FRESH, "train.py:9#MseLoss", value)) for value in fresh]
