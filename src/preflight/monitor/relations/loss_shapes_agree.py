"""Predictions and targets of a loss have the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Node, Tail
from preflight.monitor.window import Call, Window

_ELEMENTWISE = ("Sub", "Rsub", "Mul", "Div", "Add")
_LYING = ("T", "Transpose", "Permute", "Squeeze", "View", "UnsafeView", "ReshapeAlias")
_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softplus", "Exp", "LeakyRelu", "Elu", "Gelu", "Silu")
_SEEKING = ("Min", "Max", "Amin", "Amax", "Sort", "Topk", "Logsumexp", "Softmax", "LogSoftmax")
_KERNELS = ("Exp", "Sigmoid", "LogSigmoid", "Softplus")
_LOSSES = frozenset(
    {
        *("NllLoss", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss"),
        *("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
    }
)
_KEEPING_PLACES = ("Neg", "Mul", "Div", "Minimum", "Maximum", "Clamp", "Mean", "Sum")
_SQUEEZING = ("Squeeze", "Select", "View", "UnsafeView", "ReshapeAlias")


class LossShapesAgree(Relation):
    """A loss that compares element by element does not stretch its target or its prediction to a third shape.

    PyTorch says so once where it happens, as a warning that is easily lost in a long output: with predictions of
    shape (N, 1) and targets of shape (N,) each prediction is compared with every target. Where the difference is computed
    by hand nothing warns, and the graph of the loss tells: a column that comes straight from a layer or its activation, or one
    that was squeezed, less something that is not trained, gives a square; a loss for each element, times weights of another
    rank, gets a dimension more. So does a column of what was picked from each row, as the log-probabilities of the actions that
    were taken, times a row of returns, all of whose products are added up, and a row of losses, one for each sample, times a
    column of weights: the mean of all products weighs every sample alike. Weights that fill the whole square are meant. Where the loss also compares the column with itself laid down, every pair is meant: distances
    between distributions are made of both. So it is where the nearest or the farthest of each row is looked for, and where
    a kernel of the differences is added up, as in a soft histogram.
    """

    name = "loss-shapes-agree"
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
            if one["message"].startswith("Using a target size (torch.Size")
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
            found = _stretched(Tail(tail))
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


def _stretched(tail: Tail) -> tuple[list[int], list[int]] | None:
    """The shape of predictions or their losses, and the one that something without a gradient stretches them to.

    A column that comes straight from a layer, or the row that it was squeezed to, and becomes a square; or anything that gets one dimension more in front,
    as long as the one that it began with.
    """
    if any(_paired(tail, node) for node in tail.nodes):
        return None
    for node in tail.nodes:
        if node.name not in _ELEMENTWISE or not node.shape or node.below.count(-1) != 1 or len(node.below) != 2:
            continue
        source = tail.nodes[max(node.below)]
        if source.shape is None:
            continue
        shape = node.shape
        if node.constant == shape:  # a whole matrix of weights, as of how near samples are to each other
            continue
        square = len(shape) == 2 and shape[0] == shape[1] > 1 and source.shape == [shape[0], 1]
        if node.name in ("Sub", "Rsub") and _sought(tail, node):
            continue
        if square and node.name in ("Sub", "Rsub") and _of_a_layer(tail, source):
            return source.shape, shape
        if node.name in ("Sub", "Rsub") and _squeezed(tail, source) and shape == source.shape * 2:
            return source.shape, shape
        if square and node.name == "Mul" and _picked(tail, source) and _added_up(tail, node):
            return source.shape, shape
        laid = len(shape) == 2 and shape[0] == shape[1] > 1 and [*source.shape, 1] == node.constant
        if laid and node.name == "Mul" and (_picked(tail, source) or _ratio(tail, source)) and _added_up(tail, node):
            return node.constant, shape
        if node.name == "Mul" and shape == source.shape * 2 and _losses(tail, source) and _added_up(tail, node):
            return source.shape, shape
        if len(source.shape) > 1 and shape[1:] == source.shape and shape[0] == source.shape[0] > 1:
            return source.shape, shape
    return None


def _paired(tail: Tail, node: Node) -> bool:
    """Whether an operation takes each two values of one column: the column and the same one laid down."""
    if node.name not in ("Sub", "Rsub") or len(node.below) != 2 or min(node.below) < 0:
        return False
    one, other = (tail.nodes[place] for place in node.below)
    return any(
        lying.name in _LYING and lying.below and tail.nodes[lying.below[0]] is standing
        for lying, standing in ((one, other), (other, one))
    )


def _squeezed(tail: Tail, node: Node) -> bool:
    """Whether a row of numbers is a column that comes straight from a layer, without the dimension of size one."""
    if node.name not in _SQUEEZING or node.shape is None or len(node.shape) != 1 or node.shape[0] < 2:
        return False
    column = next((tail.nodes[place] for place in node.below if place >= 0), None)
    return column is not None and _of_a_layer(tail, column) and column.shape == [node.shape[0], 1]


def _of_a_layer(tail: Tail, node: Node) -> bool:
    """Whether something is what a layer gives out, or an activation of it."""
    while node.name in _ACTIVATIONS and len(node.below) == 1 and node.below[0] >= 0:
        node = tail.nodes[node.below[0]]
    return node.name in ("Addmm", "Mm")


def _picked(tail: Tail, node: Node) -> bool:
    """Whether a column was picked from rows, one of each, whatever was done to its elements since."""
    through = (*_ACTIVATIONS, "Neg", "Log", "Clamp", "Squeeze", *_ELEMENTWISE)
    while node.name in through and sum(place >= 0 for place in node.below) == 1:
        node = tail.nodes[max(node.below)]
    return node.name == "Gather"


def _ratio(tail: Tail, node: Node) -> bool:
    """Whether each element is what a policy gives now over what it gave: the power of a difference to something that rests."""
    while node.name == "Clamp" and len(node.below) == 1 and node.below[0] >= 0:
        node = tail.nodes[node.below[0]]
    if node.name != "Exp" or len(node.below) != 1 or node.below[0] < 0:
        return False
    exponent = tail.nodes[node.below[0]]
    return exponent.name in ("Sub", "Rsub") and exponent.below.count(-1) == 1


def _losses(tail: Tail, node: Node) -> bool:
    """Whether a row holds a loss for each sample: one of PyTorch's, logarithms of probabilities added up, or a sum of such."""
    if node.shape is None or len(node.shape) != 1 or node.shape[0] < 2:
        return False
    if node.name == "Add":
        return bool(node.below) and all(place >= 0 and _losses(tail, tail.nodes[place]) for place in node.below)
    while node.name in ("Neg", "Mul", "Div", "Squeeze") and sum(place >= 0 for place in node.below) == 1:
        node = tail.nodes[max(node.below)]
    if not node.shape:  # one loss of the whole batch, times a number for each sample
        return False
    if node.name in _LOSSES:
        return True
    if node.name not in ("Sum", "Mean") or len(node.below) != 1 or node.below[0] < 0:
        return False
    added = tail.nodes[node.below[0]]
    while added.name in ("Neg", "Mul") and sum(place >= 0 for place in added.below) == 1:
        added = tail.nodes[max(added.below)]
    return added.name in ("Log", "LogSoftmax") or added.name in _LOSSES


def _added_up(tail: Tail, node: Node) -> bool:
    """Whether all elements of what an operation gives are added up, with nothing but arithmetic before."""
    while node.place:
        users = [one for one in tail.nodes if node.place in one.below]
        if len(users) != 1 or users[0].name not in _KEEPING_PLACES:
            return False
        node = users[0]
        if node.name in ("Mean", "Sum"):
            return node.shape == []
    return False


def _sought(tail: Tail, node: Node) -> bool:
    """Whether of all pairs some are picked out, or weighed by how near they are, before anything is added up."""
    waiting = [node]
    for one in waiting:  # grows as it goes
        for user in tail.users(one):
            if user.name in _SEEKING or user.name in _KERNELS:
                return True
            if user.shape == node.shape and user not in waiting:
                waiting.append(user)
    return False


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
