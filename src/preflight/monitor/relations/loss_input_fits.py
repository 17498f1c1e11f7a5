"""A loss is given what it expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Node, Tail
from preflight.monitor.window import Window

_LOG_LOSSES = ("NllLoss", "NllLoss2D", "CtcLoss", "KlDiv")
_SQUASHED = ("Softmax", "Sigmoid")
_SCORES = ("Addmm", "Mm", "Convolution")
_ELEMENTWISE = ("Log", "Clamp", "ClampMin", "Add", "ToCopy", "Clone")
_ROWS = ("Index", "IndexSelect")  # of a matrix, where some of its rows are picked out
_VIEWS = ("Squeeze", "View", "UnsafeView", "ReshapeAlias", "Alias")  # which may leave a shape as it is
_COMPARING = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "NllLoss", "NllLoss2D")


class Misfit(NamedTuple):
    """What is wrong with a loss.

    Attributes:
        kind: A word for it.
        names: The operations concerned, as people call them.
        expected: What the loss should be given.
        seen: What it is given.
    """

    kind: str
    names: tuple[str, ...]
    expected: str
    seen: str


class LossInputFits(Relation):
    """A loss is given what it expects: scores, probabilities or their logarithms.

    A cross entropy applies the softmax itself, ``binary_cross_entropy_with_logits`` the sigmoid; ``nll_loss`` and
    ``ctc_loss`` take logarithms of probabilities, over the classes. Given anything else they compute a number without
    a complaint: gradients vanish, the loss cannot fall below a floor, or it falls without limit.
    Logarithms of probabilities that are weighted with targets and added up over the last dimension are to be normalised
    over this one.
    A softmax over the samples makes these compete for a class; a cross entropy on top of it tells each sample by itself.
    Scores are fine where the loss also has the logarithm of the sum of their exponentials: a cross entropy in two terms.
    Scores that went through a ReLU cannot speak against a class, and those at zero get no gradient. Scores of classes that
    went through dropout are zero at random, whatever the sample is, and the network cannot learn to tell around it: dropout
    belongs before the last layer.
    A softmax over a dimension of size one gives 1 whatever comes in; of a single number it is not told, because scores
    between the samples of a batch are one where the last batch of an epoch has one sample.
    Judged by the end of the graph that leads to the loss, between it and the last operation with weights; through
    operations that only reshape or convert.
    """

    name = "loss-input-fits"
    midway = True
    needs = frozenset({"backward"})
    wakes = frozenset({"backward"})
    repeats = 1
    looks = frozenset({"backward"})
    whole = False
    priority = 3
    cause = "the model ends in an activation that the loss applies itself, or lacks the one that the loss expects"
    advice = "hand scores to cross_entropy and binary_cross_entropy_with_logits, and log_softmax over the classes to nll_loss"

    def __init__(self) -> None:
        self._known: dict[
            str | None, tuple[Any, Misfit | None]
        ] = {}  # by place: the last tail, and what is wrong in it

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            told = (call.args or {}).get("tail")
            if not told:
                continue
            before, wrong = self._known.get(call.place, (None, None))
            if before != told:
                tail = Tail(told)
                wrong = next((one for node in tail.nodes if (one := misfit(tail, node)) is not None), None)
                self._known[call.place] = told, wrong
            yield Example(
                (),
                wrong is None,
                {},
                variables=wrong.names if wrong else (),
                expected=wrong.expected if wrong else "what it is made for",
                seen=wrong.seen if wrong else None,
                call=call,
                detail=f"The loss is given something else than it expects: {wrong.seen}" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        for names in (("NllLoss", "LogSoftmax", "View", "Addmm"), ("NllLoss", "Log", "Softmax", "Addmm")):
            yield _backward(names)
        yield _backward(("Mean", "MseLoss", "Softmax", "Addmm"))
        yield _backward(("NllLoss", "LogSoftmax", "Mean", "Relu", "Convolution"))
        yield _backward(("NllLoss", "LogSoftmax", "Mm"), classes=1, samples=1)
        yield _weighted(-1, 1)
        yield _backward(("NllLoss", "LogSoftmax", "Add", "NativeDropout", "Addmm"))  # of a branch beside another one
        yield _backward(("KlDiv", "LogSoftmax", "NativeDropout", "Addmm"))
        rows = [
            ["Add", [], None, [1, 2]],
            ["NllLoss", [], None, [3]],
            ["Logsumexp", [8], 1, [3]],
            ["Addmm", [8, 4], None, []],
        ]
        yield [Mini().window(("backward", {"args": {"tail": rows}}))]
        yield _linear("LogSoftmax")
        yield _backward(("NllLoss", "LogSoftmax", "LogSoftmax", "Addmm"))  # twice over the classes is as once
        yield _chain(
            ["NllLoss", [], None], ["LogSoftmax", [8, 8], 1], ["LogSoftmax", [8, 8], 0]
        )  # of samples with samples
        yield _chain(["NllLoss", [], None], ["LogSoftmax", [8, 6], 1], ["T", [8, 6], None], ["LogSoftmax", [6, 8], 0])
        yield _chain(["NllLoss", [], None], ["View", [8, 6], None], ["LogSoftmax", [8, 1, 6], 2])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _backward(("Mul", "NllLoss", "LogSoftmax", "View", "Softmax", "Addmm"))
        yield _backward(("BinaryCrossEntropyWithLogits", "Squeeze", "Sigmoid", "Addmm"))
        yield _backward(("NllLoss", "Addmm"))
        yield _linear()
        yield _backward(("NllLoss", "Index", "LogSoftmax", "Addmm"), dim=0)
        yield _backward(("NllLoss", "LogSoftmax", "Addmm"), dim=0)
        yield _backward(("NllLoss", "Squeeze", "LogSoftmax", "Addmm"), dim=0)
        yield _backward(("NllLoss", "Log", "Softmax", "Addmm"), dim=0)
        yield _backward(("MseLoss", "Softmax", "Addmm"), classes=1)
        yield _backward(("NllLoss", "LogSoftmax", "Relu", "Addmm"))
        yield _backward(("BinaryCrossEntropyWithLogits", "Squeeze", "Relu", "Addmm"))
        yield _backward(("NllLoss", "LogSoftmax", "View", "NativeDropout", "Addmm"))
        yield _weighted(-1, 0)
        yield _backward(("NllLoss", "LogSoftmax", "Addmm"), classes=1)
        yield _chain(["NllLoss", [], None], ["LogSoftmax", [8, 6], 1], ["LogSoftmax", [8, 6], 0])


def misfit(tail: Tail, node: Node) -> Misfit | None:
    """What is wrong with one operation of the end of a graph, or None."""
    if not node.below:
        return None  # what it was given was not told
    if node.name in ("LogSoftmax", "BinaryCrossEntropyWithLogits") or _is_log_softmax(tail, node):
        return _twice(tail, node) or _summed(tail, node)
    if node.name in _LOG_LOSSES:
        return _no_logarithm(tail, node)
    return None if node.name != "Softmax" else _constant(tail, node)


def _twice(tail: Tail, node: Node) -> Misfit | None:
    source = tail.source(node.below[0])
    binary = node.name == "BinaryCrossEntropyWithLogits"
    loss = "binary_cross_entropy_with_logits" if binary else "cross_entropy"
    wrong = (*_SQUASHED, "LogSoftmax") if binary else _SQUASHED
    if source is not None and source.name == "Relu":
        seen = "the result of relu, which is never below zero and often exactly zero"
        return Misfit("cut", (loss, "relu", "ReLU"), "scores of either sign", seen)
    if source is not None and source.name == "NativeDropout" and _counts_classes(tail, node):
        seen = "scores of which dropout has set a share to zero"
        return Misfit("dropped", (loss, "dropout", "Dropout"), "the scores of the last layer as they are", seen)
    if source is not None and source.name in wrong:
        word = _WORDS[source.name]
        names = (loss, word, *(() if binary else ("log_softmax",)))
        own = "sigmoid" if binary else "log_softmax"
        return Misfit("twice", names, "scores", f"the result of {word}, to which {own} is applied again")
    if node.name != "LogSoftmax":
        return None
    direct = all(one.name in _LOG_LOSSES for one in tail.users(node))
    return _constant(tail, node) or (_among_samples(tail, node) if direct else None)


def _among_samples(tail: Tail, node: Node) -> Misfit | None:
    """A log_softmax over the samples of a matrix, to which a cross entropy is applied as it is.

    A square matrix may hold the scores of samples with each other.
    """
    place = node.below[0] if node.below else -1
    while 0 <= place < len(tail.nodes) and tail.nodes[place].name in _ELEMENTWISE:
        place = tail.nodes[place].below[0] if len(tail.nodes[place].below) == 1 else -1
    source = tail.nodes[place] if 0 <= place < len(tail.nodes) else None
    if source is None or source.name != "LogSoftmax" or not source.shape or source.dim is None:
        return None
    if len(source.shape) != 2 or source.dim % 2 or min(source.shape) < 2 or source.shape[0] == source.shape[1]:
        return None
    seen = f"a log_softmax over dimension 0 of {source.shape}, the samples"
    return Misfit("dimension", ("cross_entropy", "log_softmax"), "scores for each sample by itself", seen)


def _counts_classes(tail: Tail, node: Node) -> bool:
    """Whether scores go straight into a loss over labels, and not into a comparison with other scores."""
    return node.name != "LogSoftmax" or any(user.name in ("NllLoss", "NllLoss2D") for user in tail.users(node))


def _summed(tail: Tail, node: Node) -> Misfit | None:
    """Logarithms of probabilities, normalised over one dimension, weighted and added up over the last one."""
    if node.name != "LogSoftmax" or not node.shape or node.dim is None:
        return None
    rank = len(node.shape)
    for weighted in (one for one in tail.users(node) if one.name == "Mul" and -1 in one.below):
        for total in tail.users(weighted):
            if total.name != "Sum" or total.dim is None or weighted.shape != node.shape:
                continue
            if total.dim % rank == rank - 1 != node.dim % rank:
                seen = f"a log_softmax over dimension {node.dim % rank} of {node.shape}, added up over the last one"
                return Misfit("dimension", ("log_softmax", "sum"), "a log_softmax over what is added up", seen)
    return None


def _is_log_softmax(tail: Tail, node: Node) -> bool:
    """``x - logsumexp(x)``, which distributions compute."""
    if node.name != "Sub" or len(node.below) != 2 or min(node.below) < 0:
        return False
    left, right = tail.source(node.below[0]), tail.source(node.below[1])
    return right is not None and right.name == "Logsumexp" and left is not None and tail.source(right.below[0]) is left


def _no_logarithm(tail: Tail, node: Node) -> Misfit | None:
    source = tail.source(node.below[0])
    loss = _WORDS[node.name]
    if source is None:
        return None
    scores = source.name in _SCORES or _is_linear(tail, source)
    if scores and any(one.name == "Logsumexp" and tail.source(one.below[0]) is source for one in tail.nodes):
        return None
    if source.name in _SQUASHED or scores:
        given = f"the result of {_WORDS[source.name]}" if source.name in _SQUASHED else "scores without a log_softmax"
        return Misfit("no logarithm", (loss, _WORDS.get(source.name, "log_softmax")), "log-probabilities", given)
    direct = _normalised(tail, node)
    if direct is None or not direct.shape or direct.dim is None:
        return None
    rank = len(direct.shape)
    classes = rank - 1 if node.name == "CtcLoss" else 1 if rank > 1 else 0
    if direct.dim % rank == classes or node.name == "KlDiv":
        return None
    word = _WORDS[direct.name]
    seen = f"a {word} over dimension {direct.dim % rank} of {direct.shape}"
    return Misfit("dimension", (loss, word), f"a {word} over the classes, dimension {classes}", seen)


def _is_linear(tail: Tail, node: Node) -> bool:
    """``x @ weight + bias``, which layers that a program writes itself compute."""
    if node.name != "Add" or len(node.below) != 2 or min(node.below) < 0 or not node.shape:
        return False
    product, bias = sorted((tail.nodes[place] for place in node.below), key=lambda one: one.name == "AccumulateGrad")
    return product.name in _SCORES and bias.name == "AccumulateGrad" and bias.shape == node.shape[-1:]


def _normalised(tail: Tail, node: Node) -> Node | None:
    """The softmax whose result a loss is given as it is, or as its logarithm; None where its shape was changed."""
    place = node.below[0] if node.below else -1
    while 0 <= place < len(tail.nodes):
        found = tail.nodes[place]
        if found.name in ("LogSoftmax", "Softmax"):
            return found
        if found.name in (*_ROWS, *_VIEWS) and found.shape:
            below = tail.nodes[found.below[0]] if found.below and found.below[0] >= 0 else None
            kept = 1 if found.name in _ROWS else 0
            if below is None or not below.shape or below.shape[kept:] != found.shape[kept:]:
                return None
        elif found.name not in _ELEMENTWISE:
            return None
        if len({one for one in found.below if one >= 0}) != 1:
            return None
        place = max(found.below)
    return None


def _constant(tail: Tail, node: Node) -> Misfit | None:
    """A softmax over a dimension of size one, where its result goes straight into a loss."""
    if not node.shape or node.dim is None or node.shape[node.dim % len(node.shape)] != 1:
        return None
    if max(node.shape) == 1:
        return None  # scores of the samples of a batch with each other, of a batch of one
    users = tail.users(node)
    if not users or any(user.name not in (*_COMPARING, "Log") for user in users):
        return None
    word = _WORDS[node.name]
    return Misfit(
        "one class", (word,), "more than one class", f"a {word} over a dimension of size one, which is constant"
    )


_WORDS = {
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid",
    "NllLoss": "nll_loss",
    "NllLoss2D": "nll_loss",
    "CtcLoss": "ctc_loss",
    "KlDiv": "kl_div",
}


def _backward(names: tuple[str, ...], dim: int = 1, classes: int = 6, samples: int = 8) -> list[Window]:
    told: list[Any] = [[name, [samples, classes], dim, [at + 1]] for at, name in enumerate(names)]
    told[-1][3] = []
    return [Mini({"model.weight": {}}).window(("backward", {"args": {"tail": told}}))]


def _chain(*above: list[Any]) -> list[Window]:
    """Operations, the loss first, over a product with weights."""
    told: list[Any] = [[*one, [at + 1]] for at, one in enumerate(above)]
    told.append(["Addmm", above[-1][1], None, []])
    return [Mini({"model.weight": {}}).window(("backward", {"args": {"tail": told}}))]


def _weighted(total: int, dim: int) -> list[Window]:
    shape = [8, 6]
    told: list[Any] = [["Mean", [], None, [1]], ["Sum", [8], total, [2]], ["Mul", shape, None, [-1, 3]]]
    told += [["LogSoftmax", shape, dim, [4]], ["Addmm", shape, None, []]]
    return [Mini({"model.weight": {}}).window(("backward", {"args": {"tail": told}}))]


def _linear(*above: str) -> list[Window]:
    """A product with a bias, and what is between it and the loss."""
    told: list[Any] = [[name, [8, 6], 1, [at + 1]] for at, name in enumerate(("NllLoss", *above, "Index"))]
    told += [
        ["Add", [9, 6], None, [len(told) + 1, len(told) + 2]],
        ["Mm", [9, 6], None, []],
        ["AccumulateGrad", [6], None, []],
    ]
    return [Mini().window(("backward", {"args": {"tail": told}}))]
