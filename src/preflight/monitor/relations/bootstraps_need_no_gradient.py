"""A target that a network makes for itself carries no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import PASSING, Node, Tail
from preflight.monitor.window import Window

_LOSSES = ("MseLoss", "SmoothL1Loss", "HuberLoss")
_PICKS = ("Gather", "Index", "Max", "Amax")


class BootstrapsNeedNoGradient(Relation):
    """What a network is to say of an action is not computed by the same network with gradients.

    The value of an action is compared with its reward plus what is expected afterwards. Where this comes from the network
    that is trained, with its graph, the loss also pulls it towards what was said of the action before, and half of every
    step is spent against learning. It usually means that the target network is not asked.
    Judged where a regression loss has gradients on both sides: on one an output that was picked by an index, on the other
    a sum of something without gradients and of picked outputs; and where a single model was called with gradients
    since the backward pass before. Where a second network was, its gradients may be nobody's, and it is left alone.
    """

    name = "bootstraps-need-no-gradient"
    midway = True
    needs = frozenset({"backward", "forward"})
    wakes = frozenset({"backward", "forward"})
    repeats = 2
    looks = frozenset({"backward", "forward"})
    whole = False
    priority = 9
    cause = "the target is computed without torch.no_grad() or detach(), and by the network that is trained"
    advice = "compute the target by the target network within torch.no_grad()"

    def __init__(self) -> None:
        self._roots: set[str] = set()
        self._wrong: dict[str | None, Node | None] = {}  # by place: the loss that has such a target

    def see(self, window: Window) -> Iterator[Example]:
        calls = sorted([*window.named("forward"), *window.named("backward")], key=lambda call: call.q)
        for call in calls:
            if call.name == "forward":
                if (call.context or "").startswith("grad"):
                    self._roots.add(call.object)
                continue
            told = (call.args or {}).get("tail")
            if told:
                self._wrong[call.place] = _bootstrapped(Tail(told))
            if call.place in self._wrong:
                wrong = self._wrong[call.place] if len(self._roots) == 1 else None
                names = tuple(sorted(self._roots)) if wrong is not None else ()
                yield Example(
                    (),
                    wrong is None,
                    {},
                    variables=names,
                    expected="a target without gradients",
                    seen="a target that is made of outputs of the same network, with their graph" if names else None,
                    call=call,
                    detail=f"The target of a loss carries gradients of {names[0]}, which it is to train"
                    if names
                    else "",
                )
            self._roots.clear()

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("forward model", target=[-1])
        yield _run("forward model", "forward target", target=[2])
        yield _run("forward model", target=[2], added="Mul")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("forward model", "forward model", target=[2])


def _bootstrapped(tail: Tail) -> Node | None:
    """A loss between what was picked, and something without gradients plus what was picked."""
    for node in tail.nodes:
        if node.name not in _LOSSES or len(node.below) != 2 or min(node.below) < 0:
            continue
        for one, other in (node.below, node.below[::-1]):
            added = _first(tail, other)
            if not _picked(tail, one) or added is None or added.name not in ("Add", "Sub") or -1 not in added.below:
                continue
            if any(_below(tail, place) for place in added.below if place >= 0):
                return node
    return None


def _first(tail: Tail, place: int) -> Node | None:
    """The first operation that does more than hand on what it is given."""
    while 0 <= place < len(tail.nodes):
        node = tail.nodes[place]
        if node.name not in PASSING or not node.below:
            return node
        place = node.below[0]
    return None


def _picked(tail: Tail, place: int) -> bool:
    """Whether an output is picked there, and only handed on since."""
    while 0 <= place < len(tail.nodes):
        node = tail.nodes[place]
        if node.name in ("Gather", "Index"):
            return True
        if node.name not in PASSING or not node.below:
            return False
        place = node.below[0]
    return False


def _below(tail: Tail, place: int) -> bool:
    """Whether a value is computed from what was picked."""
    waiting = [place]
    for one in waiting:
        node = tail.nodes[one]
        if node.name in _PICKS:
            return True
        waiting += [two for two in node.below if two >= 0 and two not in waiting]
    return False


def _run(*passes: str, target: list[int], added: str = "Add") -> list[Window]:
    tail: list[Any] = [["SmoothL1Loss", [], None, [1, *target]], ["Squeeze", [8], None, [4]]]
    tail += [[added, [8], None, [-1, 3]], ["Mul", [8], None, [5]]]
    tail += [["Gather", [8, 1], 1, [6]], ["Amax", [8], 1, [6]], ["Addmm", [8, 4], None, []]]
    return [Mini({"model.weight": {}}).window(*passes, ("backward", {"args": {"tail": tail}}))]
