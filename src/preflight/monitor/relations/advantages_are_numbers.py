"""An advantage that weighs a policy's actions is a number, not a way to change the critic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Node, Tail
from preflight.monitor.window import Window

_REGRESSIONS = ("MseLoss", "SmoothL1Loss", "HuberLoss")
_LOGARITHMS = ("Gather", "Log", "LogSoftmax", "Logsumexp", "NllLoss", "BinaryCrossEntropyWithLogits")
"""What the logarithm of a probability is computed by."""
_HOPS = 6
_RESHAPED = frozenset(
    {"View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Flatten", "Clone", "Alias", "Contiguous"}
)
"""What leaves all numbers of an estimate as they are, in another form."""


class AdvantagesAreNumbers(Relation):
    """Where a loss multiplies something by the error of an estimate that it trains beside it, no gradient goes back there.

    An actor's loss weighs the logarithms of its actions by an advantage: what was gained, less what a critic expected.
    Left in the graph, the critic is not only drawn to what was gained but also pushed to make the actions look better or
    worse than they were; the returns grow, and the estimates run away.
    Judged is the end of the graph of each loss: a product of something that logarithms of probabilities go into with a
    difference between numbers without gradients and an estimate that a regression of the same loss trains (mean squared,
    Huber, the square of that difference), as it is or made to a mean of nought and a variance of one. Where it is detached,
    the product has one side only. Products with a multiplier that is learnt, as in constrained training, are not meant.
    """

    name = "advantages-are-numbers"
    midway = True
    needs = frozenset({"backward", "step"})
    wakes = frozenset({"backward"})
    repeats = 1
    looks = frozenset({"backward"})
    whole = False
    severity = "warning"
    priority = 9
    cause = "the advantage is computed from the critic's output with its graph and multiplied by the log-probabilities"
    advice = "detach the advantage: (returns - values.detach()), or advantage.detach() in the actor's loss"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            told = (call.args or {}).get("tail")
            if not told:
                continue
            tail = Tail(told)
            products = list(_products(tail))
            if not products:
                continue
            wrong = any(products)
            yield Example(
                (),
                not wrong,
                {},
                variables=("advantage", "backward") if wrong else (),
                expected="a product with an error that is detached" if wrong else None,
                seen="the error of an estimate that the same loss trains, with its graph" if wrong else None,
                call=call,
                detail="The loss multiplies by the error of an estimate that it trains, and a gradient goes back through it"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([6, -1])  # detached
        yield _run([7, 7])  # a square

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([6, 7])
        yield _run([6, 7], error=[-1, 10])  # a view of its own


def _products(tail: Tail) -> Iterator[bool]:
    """Of each product in a loss that trains an estimate: whether one side is the error of that estimate, with its graph."""
    estimates = _estimates(tail)
    if not estimates:
        return
    for node in tail.nodes:
        if node.name != "Mul" or len(node.below) != 2:
            continue
        sides = [_difference(tail, place) for place in node.below]
        yield any(
            side is not None
            and (estimate := _formless(tail, side.below[1])) in estimates
            and _weighed(tail, other, estimate)
            for side, other in zip(sides, reversed(node.below), strict=True)
        )


def _estimates(tail: Tail) -> set[int]:
    """The places of what regressions on numbers without gradients train."""
    found = set()
    for node in tail.nodes:
        if node.name in _REGRESSIONS and len(node.below) == 2 and node.below[1] == -1 and node.below[0] >= 0:
            found.add(_formless(tail, node.below[0]))
        elif node.name == "Pow" and node.below and node.below[0] >= 0:
            one = tail.source(node.below[0])
            if one is not None and one.name == "Sub" and one.below[:1] == [-1] and len(one.below) == 2:
                found.add(_formless(tail, one.below[1]))
    return found


def _formless(tail: Tail, place: int) -> int:
    """The place of what stands at a place, looking through what only gives it another form."""
    for _ in range(_HOPS):
        node = tail.nodes[place] if place >= 0 else None
        if node is None or node.name not in _RESHAPED or len(node.below) != 1:
            break
        place = node.below[0]
    return place


def _difference(tail: Tail, place: int) -> Node | None:
    """A difference between numbers without gradients and something with one, seen through what makes it a standard one."""
    node = tail.source(place) if place >= 0 else None
    for _ in range(_HOPS):
        if node is None or node.name not in ("Sub", "Div", "Neg") or not node.below:
            return None
        if node.name == "Sub" and len(node.below) == 2 and node.below[0] == -1:
            return node
        mean = tail.source(node.below[1]) if node.name == "Sub" and len(node.below) == 2 else None
        if node.name == "Sub" and (mean is None or mean.name != "Mean"):
            return None
        node = tail.source(node.below[0]) if node.below[0] >= 0 else None
    return None


def _weighed(tail: Tail, place: int, estimate: int) -> bool:
    """Whether logarithms of probabilities go into what stands at a place, and an estimate does not."""
    waiting, seen = [place] if place >= 0 else [], {place}
    for at in waiting:  # grows as it goes
        new = [one for one in tail.nodes[at].below if one >= 0 and one not in seen]
        seen.update(new)
        waiting += new
    return estimate not in seen and any(tail.nodes[at].name in _LOGARITHMS for at in waiting)


def _run(product: list[int], error: Sequence[int] = (-1, 5)) -> list[Window]:
    """A loss of a critic's regression and a product, whose sides are at 6 (an actor's) and 7 (the critic's error)."""
    tail: list[list[Any]] = [
        ["Add", [], None, [1, 2]],
        ["Neg", [], None, [3]],
        ["MseLoss", [], None, [5, -1]],
        ["Mean", [], None, [4]],
        ["Mul", [8], None, product],
        ["Squeeze", [8], 1, [8]],
        ["Gather", [8, 1], -1, [9]],
        ["Sub", [8], None, list(error)],
        ["Addmm", [8, 1], None, []],
        ["Addmm", [8, 4], None, []],
        ["View", [8], None, [8]],
    ]
    mini = Mini({"model.weight": {}})
    return [mini.window(("backward", {"args": {"tail": tail}}), "step optimizer0:SGD") for _ in range(2)]
