"""Labels are smoothed once."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "labels.smoothed"
_LOOKS = 2


class LabelsSmoothedOnce(Relation):
    """A cross entropy that smooths its targets is given targets that were not smoothed before.

    ``label_smoothing`` moves a share of each target to the other classes. Where the data set or a mixing of samples has
    done so already, it is done twice: the targets are nearly twice as soft as was asked for, and the loss can fall less far.
    Judged are targets with a number for each of four classes and more, where ``label_smoothing`` is set, in the first calls
    of each place in the code. They were smoothed before where in every row all classes but one or two have the same share,
    and these shares come to a hundredth for all classes together; it is broken where two calls in a row were given such targets.
    What a teacher says of a sample has no such form.
    """

    name = "labels-smoothed-once"
    midway = True
    needs = frozenset({"backward", "scalar", _NAME})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    severity = "warning"
    category = "data"
    priority = 6
    cause = "label_smoothing is set for a loss whose targets were smoothed by the data set, a transform or a mixing"
    advice = "smooth in one place: leave label_smoothing at 0, or give the loss the classes themselves"

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _NAME or number.value is None:
                continue
            place = number.object
            times = self._times[place] = self._times.get(place, 0) + 1 if number.value == 1 else 0
            wrong = times >= _LOOKS
            yield Example(
                (),
                not wrong,
                {},
                variables=("cross_entropy", "label_smoothing") if wrong else (),
                expected="targets that were not smoothed before" if wrong else None,
                seen="rows in which all classes but one or two have the same share" if wrong else None,
                call=next((one for one in window.named("backward") if one.q > number.q), None),
                detail=f"The targets of the cross entropy at {place} are smoothed twice" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0, 0.0)
        yield _run(1.0, 0.5, 1.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1.0, 1.0)


def _run(*shares: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(("scalar", _NAME, "train.py:7", share), "backward", "step optimizer0:SGD") for share in shares]
