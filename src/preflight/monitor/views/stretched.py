"""What the end of a loss's graph stretches to a third shape, so that samples are compared with each other."""

from __future__ import annotations

from preflight.monitor.views.tails import Node, Tail

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
_COMPARING = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
_KEEPING_PLACES = ("Neg", "Mul", "Div", "Minimum", "Maximum", "Clamp", "Mean", "Sum")
_SQUEEZING = ("Squeeze", "Select", "View", "UnsafeView", "ReshapeAlias")


def stretched(tail: Tail) -> tuple[list[int], list[int]] | None:
    """The shape of predictions or their losses, and the one that something without a gradient stretches them to.

    A column that comes straight from a layer, or the row that it was squeezed to, and becomes a square; a row of ratios, or of
    what was picked from each row, times a column; or anything that gets one dimension more in front, as long as the one that
    it began with.
    """
    if any(_paired(tail, node) for node in tail.nodes):
        return None
    for node in tail.nodes:
        spread = _spread(tail, node)
        if spread is not None:
            return spread
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
        column = [*source.shape, 1]
        laid = len(shape) == 2 and shape[0] == shape[1] > 1 and column == node.constant
        if laid and node.name == "Mul" and (_picked(tail, source) or _ratio(tail, source)) and _added_up(tail, node):
            return column, shape
        if node.name == "Mul" and shape == source.shape * 2 and _losses(tail, source) and _added_up(tail, node):
            return source.shape, shape
        if len(source.shape) > 1 and shape[1:] == source.shape and shape[0] == source.shape[0] > 1:
            return source.shape, shape
    return None


def _spread(tail: Tail, node: Node) -> tuple[list[int], list[int]] | None:
    """The shape of what a layer gives, and the square that it was spread to for a loss that compares each two elements."""
    absolute = node.name == "Sub" and node.below.count(-1) == 1 and any(one.name == "Abs" for one in tail.users(node))
    if not (node.name in _COMPARING or absolute) or _sought(tail, node):
        return None
    for place in node.below:
        over = tail.nodes[place] if place >= 0 else None
        if over is None or over.name != "Expand" or over.shape is None or len(over.shape) != 2 or over.below[0] < 0:
            continue
        source = tail.nodes[over.below[0]]
        straight = _of_a_layer(tail, source) and source.shape == [over.shape[0], 1]
        if over.shape[0] == over.shape[1] > 1 and (straight or _squeezed(tail, source)):
            return source.shape or [], over.shape
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
