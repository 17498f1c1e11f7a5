"""Gradients that are given a graph are used with it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_UNUSED = 2


class SecondOrderUsed(Relation):
    """Gradients that ``torch.autograd.grad(..., create_graph=True)`` gives become a part of what is minimised.

    A graph of gradients is built for one purpose: a gradient penalty, a derivative in a physical equation, a Hessian's
    product. Where nothing ever goes back through it, the term was computed and left out of the loss, or detached on its
    way: the training looks as it should, and pays for a penalty that does nothing.
    Judged by the line of the program: two calls of it with a step after each, without anything that went back through what
    any of its calls gave. A line whose gradients were used once is not asked again, so that a penalty of every sixteenth
    step and a term that is measured between uses are none; and neither are calls for a model in evaluation mode.
    """

    name = "second-order-used"
    needs = frozenset({"autograd.grad", "step", "second order"})
    wakes = frozenset({"autograd.grad"})
    whole = False
    severity = "warning"
    priority = 15
    cause = "a gradient penalty is computed and not added to the loss that is passed back, or is detached before it is"
    advice = "add the term to the loss, or leave create_graph out where the gradients are only looked at"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("autograd.grad"):
            told = call.args or {}
            if "graph" not in told:
                continue
            wrong = told.get("unused", 0) >= _UNUSED
            yield Example(
                (),
                not wrong,
                {},
                variables=("autograd.grad",) if wrong else (),
                expected="a backward pass through the graph of the gradients",
                seen=f"{told['unused']} calls before this one whose graph nothing went through" if wrong else None,
                call=call,
                detail="Gradients with a graph are computed, and no loss is made of them" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0, 0, 0)
        yield _run(0, 1, 0)  # used for the first time after a step without it

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0, 1, 2)


def _run(*unused: int) -> list[Window]:
    mini = Mini({"critic.weight": {}})
    return [
        mini.window(
            "forward critic",
            ("autograd.grad", {"args": {"graph": 1, "unused": count}}),
            "backward",
            "step optimizer0:Adam",
        )
        for count in unused
    ]
