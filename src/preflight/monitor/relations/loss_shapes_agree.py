"""Predictions and targets of a loss have the same shape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.stretched import stretched
from preflight.monitor.views.tails import Tail
from preflight.monitor.window import Call, Window

_SIZE = r"\(torch\.Size\(\[([\d, ]*)\]\)\)"
_SIZES = re.compile(f"Using a target size {_SIZE} that is different to the input size {_SIZE}")


class LossShapesAgree(Relation):
    """A loss that compares element by element does not stretch its target or its prediction to a third shape.

    PyTorch says so once where it happens, as a warning that is easily lost in a long output, and that many programs
    ignore: with predictions of shape (N, 1) and targets of shape (N,) each prediction is compared with every target. Where
    one of the two keeps its shape, as with one target for all samples, it is meant, and so it is where both have as many
    axes, as where all quantiles are compared with each other. Where the program computes the difference by hand,
    the graph of the loss tells. What comes straight from a layer or its
    activation as a column, or was squeezed to a row, is spread to a square for a loss of PyTorch's, or becomes one less
    something that is not trained. A loss for each element, times weights of another rank, gets a dimension more. A column
    of what was picked from each row, as the log-probabilities of the actions that were taken, is multiplied with a row of
    returns, or such a row, or one of a policy's ratios, with a column of advantages; or a row of losses, one for each
    sample, with a column of weights: where all products are added up, every sample weighs alike.

    Weights that fill the whole square are meant. Where the loss also compares the column with itself laid down, every pair is
    meant: distances between distributions are made of both. So it is where the nearest or the farthest of each row is looked
    for, and where a kernel of the differences is added up, as in a soft histogram.
    """

    name = "loss-shapes-agree"
    midway = True
    needs = frozenset({"warning", "backward"})
    wakes = frozenset({"backward", "note warning"})
    repeats = 1
    looks = frozenset({"backward"})
    priority = 4
    cause = "predictions have a dimension of size one that the targets lack, so that both are stretched to a square"
    advice = "squeeze the predictions or unsqueeze the targets so that both have the same shape"

    def __init__(self) -> None:
        # By place: the last tail, and what was stretched in it to which shape.
        self._known: dict[str | None, tuple[Any, tuple[list[int], list[int]] | None]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        told = [
            one
            for one in window.notes.get("warning", ())
            if (sizes := _SIZES.match(one["message"])) is not None and _to_a_third(sizes[1], sizes[2])
        ]
        passes = window.named("backward")
        if not passes and not told:
            return
        if not told:
            for call in passes:
                found = self._stretch(call)
                if found is not None:
                    yield Example(
                        (),
                        False,
                        {},
                        variables=("loss",),
                        expected="targets and weights of the shape of what they are compared with",
                        seen=f"{found[0]} is stretched to {found[1]}",
                        call=call,
                        detail="The loss combines each value with those of other samples: shapes that differ are stretched",
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

    def _stretch(self, call: Call) -> tuple[list[int], list[int]] | None:
        """What the end of a graph stretches, and to which shape; the same one comes again and again."""
        tail = (call.args or {}).get("tail") or []
        before, found = self._known.get(call.place, (None, None))
        if before != tail:
            found = stretched(Tail(tail))
            self._known[call.place] = tail, found
        return found

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini().window("backward")]
        yield [Mini().window(("backward", {"args": {"tail": _difference([8, 1])}}))]
        pairs = [
            ["Sub", [], None, [1, 2]],
            ["Mean", [], None, [3]],
            ["Mean", [], None, [4]],
            ["Sub", [8, 8], None, [5, -1]],
        ]
        pairs += [["Sub", [8, 8], None, [5, 6]], ["Addmm", [8, 1], None, []], ["T", [1, 8], None, [5]]]
        yield [Mini().window(("backward", {"args": {"tail": pairs}}))]
        nearest = [["Mean", [], None, [1]], ["Min", [8], 1, [2]], *_difference([8, 8], 2)[1:]]
        yield [Mini().window(("backward", {"args": {"tail": nearest}}))]
        histogram = [
            ["Mean", [], None, [1]],
            ["Sum", [8], 0, [2]],
            ["Exp", [8, 8], None, [3]],
            *_difference([8, 8], 3)[1:],
        ]
        yield [Mini().window(("backward", {"args": {"tail": histogram}}))]
        yield [Mini().window(("backward", {"args": {"tail": _chosen([8, 1])}}))]
        spread = [["Mean", [], None, [1]], ["Sum", [8], 1, [2]], ["Mul", [8, 8], None, [3, -1]], *_chosen([8, 8])[3:]]
        yield [Mini().window(("backward", {"args": {"tail": spread}}))]  # weights along the rows of a graph's matrix
        yield [Mini().window(("backward", {"args": {"tail": _weighed([8])}}))]
        near = _weighed([8, 8])
        near[1] = [*near[1], [8, 8]]
        yield [Mini().window(("backward", {"args": {"tail": near}}))]  # how near each two samples are
        energy = [
            *_weighed([8, 8])[:3],
            ["Sum", [8], 1, [4]],
            ["Mul", [8, 3], None, [5, -1]],
            ["Addmm", [8, 3], None, []],
        ]
        yield [Mini().window(("backward", {"args": {"tail": energy}}))]  # a matrix times what each node has

        yield [Mini().window(("backward", {"args": {"tail": _compared([8, 1])}}))]
        sizes = [("", "8"), ("1", "8"), ("1, 1", "8"), ("1, 4", "8, 4"), ("4", "8, 4"), ("8, 4, 1", "8, 1, 4")]
        for target, given in sizes:  # one target for all predictions, and all quantiles with all others
            message = f"Using a target size (torch.Size([{target}])) that is different to the input size (torch.Size([{given}]))."
            yield [Mini().window(("note", "warning", {"message": message}), "backward")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        message = "Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])). This"
        yield [Mini().window(("note", "warning", {"message": message}), "backward")]
        yield [Mini().window(("backward", {"args": {"tail": _difference([8, 8])}}))]
        active = [*_difference([8, 8])[:3], ["Sigmoid", [8, 1], None, [4]], ["Addmm", [8, 1], None, []]]
        yield [Mini().window(("backward", {"args": {"tail": active}}))]
        row = [["Mean", [], None, [1]], ["Pow", [8, 8], None, [2]], ["Rsub", [8, 8], None, [3, -1]]]
        row += [["Squeeze", [8], None, [4]], ["Addmm", [8, 1], None, []]]
        yield [Mini().window(("backward", {"args": {"tail": row}}))]
        gated = [["Sum", [], None, [1]], ["Mul", [8, 8, 4], None, [2, -1]], ["Pow", [8, 4], None, []]]
        yield [Mini().window(("backward", {"args": {"tail": gated}}))]
        yield [Mini().window(("backward", {"args": {"tail": _chosen([8, 8])}}))]
        yield [Mini().window(("backward", {"args": {"tail": _weighed([8, 8])}}))]
        column = _weighed([8, 8])
        column[1] = [*column[1], [8, 1]]
        yield [Mini().window(("backward", {"args": {"tail": column}}))]
        both = [*_weighed([8, 8])[:2], ["Add", [8], None, [3, 4]]]
        both += [["SmoothL1Loss", [8], None, [5]], ["Mul", [8], None, [6, -1]], ["Addmm", [8, 1], None, []]]
        yield [Mini().window(("backward", {"args": {"tail": [*both, ["MseLoss", [8], None, [5]]]}}))]
        each = [*_weighed([8, 8])[:2], ["SmoothL1Loss", [8], None, [3]], ["Addmm", [8, 1], None, []]]
        yield [Mini().window(("backward", {"args": {"tail": each}}))]
        yield [Mini().window(("backward", {"args": {"tail": _compared([8, 8])}}))]
        acting = [["Gather", [8, 1], -1, [5]], ["Addmm", [8, 3], None, []]]
        ratio = [["Exp", [8], None, [3]], ["Sub", [8], None, [4, -1]], ["Squeeze", [8], -1, [5]], *acting]
        ratio[4] = ["Gather", [8, 1], -1, [6]]
        scored = [["Mean", [], None, [1]], ["Mul", [8, 8], None, [2, -1], [8, 1]], *ratio]
        yield [Mini().window(("backward", {"args": {"tail": scored}}))]


def _to_a_third(*written: str) -> bool:
    """Whether two sizes, as they are written, have different numbers of axes and are stretched to one that neither is."""
    sizes = [[int(one) for one in size.split(",") if one.strip()] for size in written]
    axes = max(map(len, sizes))
    full = [[1] * (axes - len(size)) + size for size in sizes]
    both = [max(pair) for pair in zip(*full, strict=True)]
    return len(sizes[0]) != len(sizes[1]) and both not in full


def _chosen(shape: list[int]) -> list[list[Any]]:
    """Minus the mean of picked log-probabilities times what is not trained."""
    return [
        ["Neg", [], None, [1]],
        ["Mean", [], None, [2]],
        ["Mul", shape, None, [3, -1]],
        ["Gather", [8, 1], 1, [4]],
        ["LogSoftmax", [8, 3], 1, [5]],
        ["Addmm", [8, 3], None, []],
    ]


def _compared(shape: list[int]) -> list[list[Any]]:
    """A loss of PyTorch's on what a layer gives, in the shape to which it was spread."""
    spread = [["Expand", shape, None, [2]]] if shape != [8, 1] else []
    return [["MseLoss", [], None, [1, -1]], *spread, ["Addmm", [8, 1], None, []]]


def _difference(shape: list[int], at: int = 1) -> list[list[Any]]:
    """The mean of the squares of a difference, whose squares are told at this place of a tail."""
    return [
        ["Mean", [], None, [at]],
        ["Pow", shape, None, [at + 1]],
        ["Sub", shape, None, [at + 2, -1]],
        ["Addmm", [8, 1], None, []],
    ]


def _weighed(shape: list[int]) -> list[list[Any]]:
    """The mean of a loss for each sample, of distributions, times weights."""
    return [
        ["Mean", [], None, [1]],
        ["Mul", shape, None, [2, -1]],
        ["Neg", [8], None, [3]],
        ["Sum", [8], 1, [4]],
        ["Mul", [8, 3], None, [5, -1]],
        ["Log", [8, 3], None, [6]],
        ["Softmax", [8, 3], 1, []],
    ]
