"""The targets of a loss lie where what it is given can be."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Tail
from preflight.monitor.window import Call, Number, Window

_SHARE = "targets.outside"
_LOW, _HIGH, _BELOW = "targets.low", "targets.high", "targets.below"
_BINARY = "BinaryCrossEntropyWithLogits"
_SOME = 0.1
_MUCH = 0.25
"""The share of the squares of targets that are below zero, from which on these are no noise around what is not negative."""
_NOT_NEGATIVE = {"Relu": "relu", "Softplus": "softplus"}
_ACTIVATIONS = {"Sigmoid": "sigmoid", **_NOT_NEGATIVE}
_WORDS = {
    _BINARY: "binary_cross_entropy_with_logits",
    "MseLoss": "mse_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
}


class TargetsWithinReach(Relation):
    """What a loss is to find lies between 0 and 1 where it expects probabilities, and otherwise where the last activation reaches.

    ``binary_cross_entropy_with_logits`` computes a number for any targets: with labels of minus one and one, of classes or
    of bytes it has no floor, and the loss sinks below zero. A network that ends in a sigmoid can never say a number below
    0 or above 1: where the data was normalised to minus one and one, half of it is out of reach.
    Judged in the first backward passes of each place in the code. For losses that compare numbers, a tenth of the targets
    must lie outside of what a sigmoid gives, or those below 0 must have a quarter of the squares of all, as no noise around
    what is not negative has; and the activation must be the last operation but for reshaping.
    """

    name = "targets-within-reach"
    midway = True
    needs = frozenset({"backward", "scalar", _SHARE})
    wakes = frozenset({"backward"})
    repeats = 2
    looks = frozenset({"backward"})
    reads = frozenset({f"scalar {_SHARE}"})
    whole = False
    priority = 4
    cause = "labels or data are scaled to other numbers than the loss or the last activation is made for"
    advice = "bring the targets to where the loss or the activation reaches, or end the model in what reaches them (tanh, or nothing)"

    def __init__(self) -> None:
        self._tails: dict[str | None, Tail] = {}

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        for call in passes:
            told = (call.args or {}).get("tail")
            if told:
                self._tails[call.place] = Tail(told)
        for number in window.numbers:
            if number.name == _SHARE and number.value is not None:
                begun = next((one for one in reversed(passes) if one.q < number.q), None)
                if begun is not None:
                    yield self._judge(number, begun, window)

    def _judge(self, number: Number, call: Call, window: Window) -> Example:
        loss = number.object.rpartition("#")[2]
        share = number.value or 0.0
        ends = {
            one.name: one.value
            for one in window.numbers
            if one.object == number.object and one.name in (_LOW, _HIGH, _BELOW)
        }
        last = "" if loss == _BINARY else self._activation(call, loss)
        if last in _NOT_NEGATIVE:
            wrong, reach = (ends.get(_BELOW) or 0.0) >= _MUCH, "targets that are not below 0"
        else:
            wrong, reach = share > 0 if loss == _BINARY else bool(last) and share >= _SOME, "targets between 0 and 1"
        word = _WORDS.get(loss, loss)
        given = (
            "labels that are probabilities" if loss == _BINARY else f"targets that a {_ACTIVATIONS.get(last)} can reach"
        )
        return Example(
            (),
            not wrong,
            {"loss": loss},
            variables=(word, *((_ACTIVATIONS[last], last) if last else ())) if wrong else (),
            expected=reach if wrong else None,
            seen=f"targets from {ends.get(_LOW) or 0:.3g} to {ends.get(_HIGH) or 0:.3g}" if wrong else None,
            call=call,
            detail=f"{word} is not given {given}" if wrong else "",
        )

    def _activation(self, call: Call, loss: str) -> str:
        """The activation that what a loss compares with its targets comes out of, of those that do not reach every number."""
        tail = self._tails.get(call.place)
        nodes = [node for node in tail.nodes if node.name == loss] if tail is not None else []
        if tail is None or len(nodes) != 1 or not nodes[0].below:
            return ""
        source = tail.source(nodes[0].below[0])
        return source.name if source is not None and source.name in _ACTIVATIONS else ""

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((_BINARY, "Addmm"), 0.0, 1.0, 0.0)
        yield _run(("MseLoss", "Addmm"), -3.0, 3.0, 0.8, 0.5)
        yield _run(("MseLoss", "View", "Sigmoid", "Addmm"), 0.0, 1.0, 0.0)
        yield _run(("MseLoss", "View", "Relu", "Addmm"), -0.4, 9.0, 0.9, 0.02)  # measured with noise
        yield _run(("MseLoss", "Add", "Relu", "Addmm"), -3.0, 3.0, 0.8, 0.5)  # with an offset of its own

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((_BINARY, "Addmm"), -1.0, 1.0, 0.5)
        yield _run(("MseLoss", "View", "Sigmoid", "Addmm"), -1.0, 1.0, 0.5)
        yield _run(("MseLoss", "View", "Relu", "Addmm"), -3.0, 3.0, 0.8, 0.5)


def _run(names: tuple[str, ...], low: float, high: float, share: float, below: float = 0.0) -> list[Window]:
    tail = [[name, [8, 4], None, [at + 1]] for at, name in enumerate(names)]
    tail[-1][3] = []
    told = zip((_LOW, _HIGH, _BELOW, _SHARE), (low, high, below, share), strict=True)
    rows = [("scalar", name, f"train.py:9#{names[0]}", value) for name, value in told]
    return [Mini({"model.weight": {}}).window(("backward", {"args": {"tail": tail}}), *rows)]
