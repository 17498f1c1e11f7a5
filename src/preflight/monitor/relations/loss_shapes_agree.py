"""Predictions and targets of a loss have the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.tails import Tail
from preflight.monitor.window import Call, Window


class LossShapesAgree(Relation):
    """A loss that compares element by element does not stretch its target or its prediction to a third shape.

    PyTorch says so once where it happens, as a warning that is easily lost in a long output: with predictions of
    shape (N, 1) and targets of shape (N,) each prediction is compared with every target. Where the difference is computed
    by hand nothing warns, and the graph of the loss tells: a column that comes straight from a layer, less something
    that is not trained, gives a square.
    """

    name = "loss-shapes-agree"
    needs = frozenset({"warning", "backward"})
    wakes = frozenset({"backward", "note warning"})
    priority = 4
    cause = "predictions have a dimension of size one that the targets lack, so that both are stretched to a square"
    advice = "squeeze the predictions or unsqueeze the targets so that both have the same shape"

    def __init__(self) -> None:
        self._known: dict[
            str | None, tuple[Any, list[int] | None]
        ] = {}  # by place: the last tail, and what was stretched in it

    def see(self, window: Window) -> Iterator[Example]:
        told = [
            one
            for one in window.notes.get("warning", ())
            if one["message"].startswith("Using a target size (torch.Size")
        ]
        passes = window.named("backward")
        if not passes and not told:
            return
        if not told:
            for call in passes:
                square = self._square(call)
                if square is not None:
                    size = square[0]
                    yield Example(
                        (),
                        False,
                        {},
                        variables=("loss",),
                        expected="a difference of the shape of the predictions",
                        seen=f"predictions of shape [{size}, 1] less targets that make them {square}",
                        call=call,
                        detail="The loss compares each prediction with every target: their shapes are stretched",
                    )
                    return
            yield Example((), True, {})
            return
        yield Example(
            (),
            False,
            {},
            variables=("loss",),
            expected="a target of the size of the input",
            seen=told[0]["message"].partition(". ")[0],
            call=passes[0] if passes else None,
            detail="The loss compares tensors of different shapes, which are stretched to a third one",
        )

    def _square(self, call: Call) -> list[int] | None:
        """The shape to which the end of a graph stretches a difference, or None; the same one comes again and again."""
        tail = (call.args or {}).get("tail") or []
        before, square = self._known.get(call.place, (None, None))
        if before != tail:
            square = _stretched(Tail(tail))
            self._known[call.place] = tail, square
        return square

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini().window("backward")]
        yield [Mini().window(("backward", {"args": {"tail": _difference([8, 1])}}))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        message = "Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])). This"
        yield [Mini().window(("note", "warning", {"message": message}), "backward")]
        yield [Mini().window(("backward", {"args": {"tail": _difference([8, 8])}}))]


def _stretched(tail: Tail) -> list[int] | None:
    """The shape of a difference between a column of predictions and something without a gradient that is a square."""
    for node in tail.nodes:
        if node.name not in ("Sub", "Rsub") or not node.shape or len(node.shape) != 2 or node.below.count(-1) != 1:
            continue
        rows, columns = node.shape
        source = tail.nodes[max(node.below)]
        if source.name in ("Addmm", "Mm") and rows == columns > 1 and source.shape == [rows, 1]:
            return node.shape
    return None


def _difference(shape: list[int]) -> list[list[Any]]:
    return [
        ["Mean", [], None, [1]],
        ["Pow", shape, None, [2]],
        ["Sub", shape, None, [3, -1]],
        ["Addmm", [8, 1], None, []],
    ]
