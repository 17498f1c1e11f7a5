"""What is evaluated is of the scale of what is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import numel
from preflight.monitor.window import Call, Window

_FACTOR = 16.0
_LEAST = 3
_FEWEST = 64
_PASSES = 2


class _Scale(NamedTuple):
    """The range of what a model was trained on, as the root of the mean square of a batch."""

    low: float
    high: float
    batches: int


class EvaluationInputsAlike(Relation):
    """Batches that a loader gives to a model in evaluation are of the scale of those that it is trained on.

    Normalisation is a matter of the training set's transform, and the one for validation lacks it: the model is judged by
    inputs such as it never saw.
    Compared are the first inputs of one model, of one shape apart from the batch, by the root of their mean square.
    It is broken where two batches in a row lie beyond sixteen times what any batch of training had, or below a sixteenth.
    """

    name = "evaluation-inputs-alike"
    category = "data"
    needs = frozenset({"fetch", "forward", "tensor"})
    wakes = frozenset({"fetch"})
    severity = "warning"
    priority = 10
    cause = "the data of the evaluation are not normalised, or otherwise than those of the training"
    advice = "use the transforms of the training set without its augmentation, with the same mean and deviation"

    def __init__(self) -> None:
        self._trained: dict[tuple[str, tuple[int, ...]], _Scale] = {}
        self._apart: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if not window.named("fetch"):
            return
        calls = {call.q: call for call in window.named("forward")}
        for seen in window.tensors:
            call = calls.get(seen.call)
            if call is None or seen.position != "in0" or seen.norm is None or seen.requires_grad:
                continue
            count = numel(seen.shape)
            if count < _FEWEST or len(seen.shape) < 2 or seen.norm != seen.norm:
                continue
            size = seen.norm / count**0.5
            key = call.object, tuple(seen.shape[1:])
            if call.context.startswith("grad") and (call.args or {}).get("training"):
                known = self._trained.get(key, _Scale(size, size, 0))
                self._trained[key] = _Scale(min(known.low, size), max(known.high, size), known.batches + 1)
            elif not call.context.startswith("grad") and (call.args or {}).get("training") is False:
                yield from self._judge(call, size, self._trained.get(key))

    def _judge(self, call: Call, size: float, scale: _Scale | None) -> Iterator[Example]:
        if scale is None or scale.batches < _LEAST or scale.low <= 0:
            return
        apart = size > _FACTOR * scale.high or size < scale.low / _FACTOR
        count = self._apart[call.object] = self._apart.get(call.object, 0) + 1 if apart else 0
        wrong = count >= _PASSES
        yield Example(
            (),
            not wrong,
            {},
            variables=(call.object,) if wrong else (),
            expected=f"inputs between {scale.low:.3g} and {scale.high:.3g}, as in training",
            seen=f"{size:.3g}" if wrong else None,
            call=call,
            detail=f"{call.object} is evaluated on inputs of another scale than it is trained on" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(10.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(500.0)


def _given(mini: Mini, norm: float, training: bool) -> Window:
    told = {"object": "model", "position": "in0", "shape": [8, 64], "norm": norm, "requires_grad": False}
    context = "grad" if training else "nograd"
    more = {"args": {"training": training}, "context": context}
    window = mini.window("fetch loader0", ("forward model", more), "backward" if training else "fetch loader1")
    number = window.named("forward")[0].q
    window.tensors += mini.window(("tensor", {**told, "call": number})).tensors
    return window


def _run(evaluated: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [_given(mini, 20.0, True) for _ in range(_LEAST)] + [_given(mini, evaluated, False) for _ in range(2)]
