"""A loss on gradients of inputs is made of gradients that have a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tails import Tail
from preflight.monitor.window import Call, Window

_VALUE, _REACHED = "term.value", "term.reached"
_TIMES = 2
_ROUNDED = 1e-4
"""What rounding may leave of a loss without the losses that it is the sum of, as a share of the largest of them."""
_SUMS = ("Add", "Sub", "Neg", "Mul", "Div")


class PenaltiesHaveAGraph(Relation):
    """Where gradients of an input are taken for a term of the loss, they are taken with ``create_graph=True``.

    Without it they are numbers. A gradient penalty or the residual of a differential equation that is made of them still
    stands in the loss that is printed, and teaches nothing.
    Judged are calls of ``torch.autograd.grad`` in training that take, without a graph, the gradient of what a network says
    (its outputs, or their sum or mean, not a loss of them) with respect to an input that was made to need one. It is broken
    where a part without gradients is added to the loss of the next backward pass, twice in a row at one line. A search for
    inputs asks for the gradient of a loss, or several times at a line, and a measure of gradients is not added to one. A loss
    that is added up from nought on is told by its value, where it is the sum of losses of ``torch.nn.functional``; another one
    looks as if a part were added to it, where gradients are also measured in each step.
    """

    name = "penalties-have-a-graph"
    needs = frozenset({"autograd.grad", "second order", "backward", "step", "forward", "tensor", "scalar", _REACHED})
    wakes = frozenset({"autograd.grad"})
    severity = "warning"
    priority = 15
    cause = "torch.autograd.grad was called without create_graph=True, so that the term on its gradients is a number"
    advice = "pass create_graph=True; if the gradients are only looked at, take them after the backward pass"

    def __init__(self) -> None:
        self._offset: dict[
            str | None, bool
        ] = {}  # by backward pass, whether a part without gradients is added to its loss
        self._times: dict[str | None, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        for call in passes:
            told = (call.args or {}).get("tail")
            if told:
                self._offset[call.place] = _has_offset(Tail(told))
        asked = window.named("autograd.grad")
        nought = len(passes) == 1 and _is_their_sum(window)
        for call in asked:
            shapes = (call.args or {}).get("without graph")
            begun = next((one for one in passes if one.q > call.q), None)
            if sum(one.place == call.place for one in asked) > 1:
                continue  # a search that takes several steps
            if not shapes or begun is None or not _given(call, shapes, window):
                continue
            added = self._offset.get(begun.place) and not nought
            times = self._times[call.place] = self._times.get(call.place, 0) + 1 if added else 0
            wrong = times >= _TIMES
            yield Example(
                (),
                not wrong,
                {},
                variables=("autograd.grad", "create_graph") if wrong else (),
                expected="gradients with a graph, or a loss without a part that has no gradients" if wrong else None,
                seen="gradients without a graph, and a part of the loss that has none" if wrong else None,
                call=call,
                detail="Gradients of an input are taken without a graph, and a part of the loss has no gradients"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([["Add", [], None, [1, 2]], ["Mean", [], None, []], ["Mean", [], None, []]])
        # A measure beside a loss whose parts are added up after numbers.
        inner: list[Any] = [["NllLoss", [], None, [2]], ["Add", [8, 4], None, [3, -1]], ["Addmm", [8, 4], None, []]]
        yield _run([["Mul", [], None, [1, -1]], *inner])
        offset: list[Any] = [["Add", [], None, [-1, 1]], ["Mean", [], None, []]]
        yield _run(offset)[:1]
        yield [*_run([["Mean", [], None, []]]), *_run(offset, times=2)]  # a walk to where an energy is low
        yield [*_run([["Mean", [], None, []]]), *_run(offset, shape=[6, 3])]  # of what no network was given
        yield _run(offset, loss=0.7)  # added up from nought on

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([["Add", [], None, [1, -1]], ["Sub", [], None, [2, 3]], *[["Mean", [], None, []]] * 2])
        yield _run([["Neg", [], None, [1]], ["Sub", [], None, [2, -1]], ["Mean", [], None, []]])
        yield _run([["Add", [], None, [1, -1]], ["NllLoss", [], None, []]], loss=0.9)


def _has_offset(tail: Tail) -> bool:
    """Whether a part without gradients is added to a loss, where it is put together of single numbers."""
    waiting = [0]
    for place in waiting:  # grows as it goes
        node = tail.nodes[place]
        if node.shape != [] or node.name not in _SUMS:
            continue
        if node.name in ("Add", "Sub") and -1 in node.below:
            return True
        waiting += [one for one in node.below if one >= 0 and one not in waiting]
    return False


def _is_their_sum(window: Window) -> bool:
    """Whether the one loss of an iteration is worth the sum of those to which gradients came: what else is added is nought."""
    reached = {one.object for one in window.numbers if one.name == _REACHED and one.value}
    values = [one.value for one in window.numbers if one.name == _VALUE and one.object in reached]
    losses = [one.value for one in window.numbers if one.name == "loss"]
    known = [one for one in (*losses, *values) if one is not None]
    if not reached or len(losses) != 1 or len(known) != 1 + len(reached):
        return False
    return abs(known[0] - sum(known[1:])) <= _ROUNDED * max(map(abs, known))


def _given(call: Call, shapes: list[list[int]], window: Window) -> bool:
    """Whether the network that ran last was given an input of one of these shapes that needs a gradient."""
    ran = [one for one in window.named("forward") if one.q < call.q]
    if not ran:
        return False
    within = [one for one in window.tensors if ran[-1].q <= one.call < ran[-1].e and one.position.startswith("in")]
    return any(one.requires_grad and list(one.shape) in shapes for one in within)


def _run(
    tail: list[list[Any]], shape: list[int] | None = None, times: int = 1, loss: float | None = None
) -> list[Window]:
    """Three steps, in each of which gradients of the inputs of a critic are taken without a graph.

    Where the loss is told, so is a cross entropy of 0.7 in it.
    """
    word = "train.py:5#0#cross_entropy#NllLoss"
    mini = Mini({"critic.weight": {}})
    found = []
    for _ in range(3):
        given = ("tensor", {"object": "critic", "position": "in0", "shape": shape or [8, 4], "requires_grad": True})
        window = mini.window(
            ("forward critic", {"inside": (given,)}),
            *[("autograd.grad", {"args": {"without graph": [[8, 4]]}, "place": "train.py:7"})] * times,
            ("backward", {"args": {"tail": tail}}),
            *([] if loss is None else [("scalar", _VALUE, word, 0.7), ("loss", loss)]),
            "step optimizer0:Adam",
            *([] if loss is None else [("scalar", _REACHED, word, 1.0)]),
        )
        number = window.named("forward")[0].q
        window.tensors = [one._replace(call=number) for one in window.tensors]
        found.append(window)
    return found
