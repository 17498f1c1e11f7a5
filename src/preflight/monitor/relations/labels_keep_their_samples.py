"""Labels stay beside the samples that they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_MOVED, _TURNED = "labels.moved", "labels.turned"
_TIMES = 3


class LabelsKeepTheirSamples(Relation):
    """A loss is not given the labels of a batch turned round while the model is given its samples as they came.

    ``labels.roll(1)``, ``labels.flip(0)``: the batch is in order, each label belongs to another sample, and what the model
    learns is how often each class occurs.
    Judged are losses that are given one number for each sample, where these are the labels of a batch of a loader, and the
    model was given the samples of that batch in the order of the loader. It is broken where in three iterations in a
    row all such losses are given labels that went round by some places, or lie the other way about, and that by chance
    numbers would hardly ever lie so. Where a loss of the iteration is given them in order, as in mixing of samples or
    with negative pairs, it is meant; labels in an order drawn at random are left alone.
    """

    name = "labels-keep-their-samples"
    needs = frozenset({"backward", "fetch", "batch", "scalar", _MOVED, _TURNED})
    wakes = frozenset({f"scalar {_MOVED}"})
    severity = "warning"
    category = "data"
    priority = 5
    cause = "the labels were rolled, flipped or sorted after the batch was put together, and the samples were not"
    advice = "change the order of samples and labels together, by one index"

    def __init__(self) -> None:
        self._times = 0

    def see(self, window: Window) -> Iterator[Example]:
        moved = [one.value for one in window.numbers if one.name == _MOVED and one.value is not None]
        if not moved:
            return
        turned = [one for one in window.numbers if one.name == _TURNED]
        wrong = all(moved) and len(turned) == len(moved) and all(one.value for one in turned) and _as_they_came(window)
        self._times = self._times + 1 if wrong else 0
        broken = self._times >= _TIMES
        passes = window.named("backward")
        place = turned[0].object.partition("#")[0] if broken else ""
        yield Example(
            (),
            not broken,
            {},
            variables=("labels", place) if broken else (),
            expected="labels in the order in which the loader gave them, as the samples are" if broken else None,
            seen="labels that were turned round" if broken else None,
            call=passes[0] if passes else None,
            detail=f"The labels of the batch are turned round at {place}, and its samples are not" if broken else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((0.0, None), times=4)
        yield _run((1.0, 0.0), times=4)
        yield _run((1.0, 1.0), times=2)
        yield _run((1.0, 1.0), times=4, given=2)
        yield _run((1.0, 1.0), (0.0, None), times=4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 1.0), times=4)


def _as_they_came(window: Window) -> bool:
    """Whether a model was given first what a loader gave first."""
    given = {one.bits[0] for one in window.batches if one.loader.startswith("forward:") and one.bits}
    came = {one.bits[0] for one in window.batches if not one.loader.startswith("forward:") and one.bits}
    return bool((given & came) - {None})


def _run(*losses: tuple[float, float | None], times: int, given: int = 1) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = [
        ("scalar", name, f"train.py:{line}#cross_entropy", value)
        for line, values in enumerate(losses)
        for name, value in zip((_MOVED, _TURNED), values, strict=True)
        if value is not None
    ]
    batches = [
        ("batch", {"loader": "loader0", "bits": [1, 5]}),
        ("batch", {"loader": "forward:model", "bits": [given]}),
    ]
    return [mini.window("fetch loader0", *batches, *told, "backward", "step optimizer0:SGD") for _ in range(times)]
