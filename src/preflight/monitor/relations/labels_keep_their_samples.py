"""Labels stay beside the samples that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.views.tails import without_scale
from preflight.monitor.window import Window

_MOVED, _TURNED = "labels.moved", "labels.turned"
_TIMES = 3
_LOSSES = frozenset(
    "NllLoss NllLoss2d MseLoss SmoothL1Loss HuberLoss MultiMarginLoss BinaryCrossEntropy BinaryCrossEntropyWithLogits".split()
)


class LabelsKeepTheirSamples(Relation):
    """A loss is not given the labels of a batch turned round while the model is given its samples as they came.

    ``labels.roll(1)``, ``labels.flip(0)``: the batch is in order, each label belongs to another sample, and what the model
    learns is how often each class occurs.
    Judged are losses that are given one number for each sample, where these are the labels of a batch that a loader drew at
    random, all that the models were given are tensors of that batch as they came, nothing near the end of the model may
    change the order of samples, and what goes backward is that loss alone. It is broken where in three iterations in a
    row all such losses are given labels that went round by some places, or lie the other way about, and that by chance
    numbers would hardly ever lie so. Where a loss of the iteration is given them in order, or there is another term, as in
    mixing of samples or with negative pairs, it is meant; labels in an order drawn at random are left alone, and so is a batch
    whose order says something, as the steps of a sequence do.
    """

    name = "labels-keep-their-samples"
    needs = frozenset({"backward", "fetch", "loader.new", "forward", "mode", "batch", "scalar", _MOVED, _TURNED})
    follows = (fetches_of,)
    wakes = frozenset({f"scalar {_MOVED}"})
    severity = "warning"
    category = "data"
    priority = 5
    cause = "the labels were rolled, flipped or sorted after the batch was put together, and the samples were not"
    advice = "change the order of samples and labels together, by one index"

    def __init__(self) -> None:
        self._times = 0
        # By place of a backward pass: whether a loss of torch's is all that it goes through.
        self._alone: dict[str, bool] = {}

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        for call in passes:
            told = (call.args or {}).get("tail")
            if told:
                self._alone[call.place or ""] = self._alone.get(call.place or "", True) and _is_loss(told)
        drawn = _as_they_came(window)
        moved = [one.value for one in window.numbers if one.name == _MOVED and one.value is not None]
        if not moved:
            return
        turned = [one for one in window.numbers if one.name == _TURNED]
        wrong = all(moved) and len(turned) == len(moved) and all(one.value for one in turned) and drawn
        wrong = wrong and bool(passes) and all(self._alone.get(call.place or "", False) for call in passes)
        self._times = self._times + 1 if wrong else 0
        broken = self._times >= _TIMES
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
        yield _run((1.0, 1.0), times=4, order="sequential")
        yield _run((1.0, 1.0), times=4, end="Add")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 1.0), times=4)


def _is_loss(told: list[list[Any]]) -> bool:
    """Whether what goes backward is what one loss of torch's gives, but for a factor."""
    names = [one[0] for one in without_scale(told)[0]]
    if names[:1] == ["Mean"]:
        names = names[1:]  # what follows is what the mean is taken of
    return bool(names) and (names[0] in _LOSSES or names[:2] == ["Abs", "Sub"])


def _as_they_came(window: Window) -> bool:
    """Whether models were given only what a loader gave, which had drawn the samples of that batch at random."""
    fetches = fetches_of(window)
    drawn = fetches and all(
        one.trained and ("random" in one.order or one.order == "drawn") and len(one.batch.indices or ()) > 1
        for one in fetches
    )
    given = {bits for one in window.batches if one.loader.startswith("forward:") for bits in one.bits}
    came = {bits for one in fetches for bits in one.batch.bits}
    return bool(drawn) and bool(given) and None not in given and given <= came


def _run(
    *losses: tuple[float, float | None], times: int, given: int = 1, order: str = "random", end: str = "NllLoss"
) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = [
        ("scalar", name, f"train.py:{line}#cross_entropy", value)
        for line, values in enumerate(losses)
        for name, value in zip((_MOVED, _TURNED), values, strict=True)
        if value is not None
    ]
    new = ("loader.new loader0", {"args": {"samples": 64, "batch_size": 4, "order": order}})
    windows = []
    for step in range(times):
        fetch = ("fetch loader0", {"args": {"epoch": 0, "fetch": step}})
        batches = [
            ("batch", {"loader": "loader0", "epoch": 0, "fetch": step, "indices": [5, 2, 9, 4], "bits": [1, 5]}),
            ("batch", {"loader": "forward:model", "bits": [given]}),
        ]
        backward = ("backward", {"args": {"tail": [[end, [], None, [1]], ["LogSoftmax", [4, 8], 1, [-1]]]}})
        windows.append(mini.window(*([] if step else [new]), fetch, *batches, *told, backward, "step optimizer0:SGD"))
    return windows
