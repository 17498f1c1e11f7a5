"""The targets of a loss lie where what it is given can be."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Tail
from preflight.monitor.window import Call, Number, Window

_SHARE = "targets.outside"
_LOW, _HIGH = "targets.low", "targets.high"
_BINARY = "BinaryCrossEntropyWithLogits"
_SOME = 0.1
_WORDS = {_BINARY: "binary_cross_entropy_with_logits", "MseLoss": "mse_loss", "SmoothL1Loss": "smooth_l1_loss"}


class TargetsWithinReach(Relation):
    """What a loss is to find lies between 0 and 1 where it expects probabilities, or where a sigmoid has made what it gets.

    ``binary_cross_entropy_with_logits`` computes a number for any targets: with labels of minus one and one, of classes or
    of bytes it has no floor, and the loss sinks below zero. A network that ends in a sigmoid can never say a number below
    0 or above 1: where the data was normalised to minus one and one, half of it is out of reach.
    Judged in the first backward passes of each place in the code. For losses that compare numbers, a tenth of the targets
    must lie outside, and the sigmoid must be the last operation but for reshaping.
    """

    name = "targets-within-reach"
    needs = frozenset({"backward", "scalar", _SHARE})
    wakes = frozenset({"backward"})
    repeats = 2
    looks = frozenset({"backward"})
    reads = frozenset({f"scalar {_SHARE}"})
    whole = False
    priority = 4
    cause = "labels or data are scaled to other numbers than the loss or the last activation is made for"
    advice = "bring the targets to 0 and 1, or end the model in what reaches them (tanh, or nothing)"

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
            one.name: one.value for one in window.numbers if one.object == number.object and one.name in (_LOW, _HIGH)
        }
        wrong = share > 0 if loss == _BINARY else share >= _SOME and self._squashed(call, loss)
        word = _WORDS.get(loss, loss)
        given = "labels that are probabilities" if loss == _BINARY else "targets that a sigmoid can reach"
        return Example(
            (),
            not wrong,
            {"loss": loss},
            variables=(word, *(() if loss == _BINARY else ("sigmoid", "Sigmoid"))) if wrong else (),
            expected="targets between 0 and 1" if wrong else None,
            seen=f"targets from {ends.get(_LOW) or 0:.3g} to {ends.get(_HIGH) or 0:.3g}" if wrong else None,
            call=call,
            detail=f"{word} is not given {given}" if wrong else "",
        )

    def _squashed(self, call: Call, loss: str) -> bool:
        """Whether what a loss compares with its targets comes out of a sigmoid."""
        tail = self._tails.get(call.place)
        nodes = [node for node in tail.nodes if node.name == loss] if tail is not None else []
        if tail is None or len(nodes) != 1 or not nodes[0].below:
            return False
        source = tail.source(nodes[0].below[0])
        return source is not None and source.name == "Sigmoid"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((_BINARY, "Addmm"), 0.0, 1.0, 0.0)
        yield _run(("MseLoss", "Addmm"), -3.0, 3.0, 0.8)
        yield _run(("MseLoss", "View", "Sigmoid", "Addmm"), 0.0, 1.0, 0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((_BINARY, "Addmm"), -1.0, 1.0, 0.5)
        yield _run(("MseLoss", "View", "Sigmoid", "Addmm"), -1.0, 1.0, 0.5)


def _run(names: tuple[str, ...], low: float, high: float, share: float) -> list[Window]:
    tail = [[name, [8, 4], None, [at + 1]] for at, name in enumerate(names)]
    tail[-1][3] = []
    told = zip((_LOW, _HIGH, _SHARE), (low, high, share), strict=True)
    rows = [("scalar", name, f"train.py:9#{names[0]}", value) for name, value in told]
    return [Mini({"model.weight": {}}).window(("backward", {"args": {"tail": tail}}), *rows)]
