"""The targets of a model of language are its inputs moved by one."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import ALMOST, Look, looks_of, together, told
from preflight.monitor.window import Window


class TargetsNextToken(Relation):
    """Targets that are the inputs of the same model are moved against them by one position.

    Where they lie at the same place, each position is given its answer and learns to copy; where they lie two on, they
    were moved twice: by the program, and by the model or the loss that it calls.
    Judged where nearly all targets that count are inputs; for those at the same place only under a causal mask, or where
    a recurrent layer reads them that goes forward, since a model whose positions see each other may be meant to give back
    what it is given. It is not meant to where only a few targets count that lie apart: these are tokens that were to be
    masked, and the labels were copied when the masks were in place already. In both cases the input must reach what is
    said at its own position; a model that moves its inputs by itself, with a token for the start, is fine.
    A model with several heads that tell several tokens ahead, and one that reads a sequence and writes it again, have
    some that lie one on, and are fine.
    """

    name = "targets-next-token"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.same", "scalar tokens.next", "scalar tokens.second"})
    whole = False
    severity = "warning"
    priority = 8
    cause = "the labels are moved by the program and by the model, or by neither of them; or copied after the masking"
    advice = "print the inputs and the labels of one text beside each other, as the loss is given them"

    def see(self, window: Window) -> Iterator[Example]:
        for looks in together(looks_of(window)).values():
            best = max(looks, key=lambda look: max(look.same or 0.0, look.second or 0.0))
            if any(look.follows for look in looks):
                yield _example(next(look for look in looks if look.follows), "")
            elif (best.second or 0.0) >= ALMOST > (best.same or 0.0):
                yield _example(best, "two positions on: they are moved twice")
            elif _given(best) and best.straight:
                yield _example(best, "the inputs at the same position, where some are picked out: nothing hides them")
            elif (best.same or 0.0) >= ALMOST > (best.second or 0.0) and _in_order(best):
                yield _example(best, "the inputs at the same position: they are not moved")

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = mini.window("backward", *told("train.py:9", same=0.05, next=1.0, second=0.05))
        masked = mini.window("backward", *told("train.py:9", same=0.1, next=0.05, second=0.05))
        back = mini.window("backward", *told("train.py:9", same=1.0, next=0.05, second=0.05, future=1.0))
        yield [first, masked, back]
        within = told("train.py:9", same=1.0, next=0.05, second=0.05, straight=0.0, future=0.0)
        summed = told("train.py:9", same=1.0, next=0.05, second=0.05, straight=0.0, forward=0.0)
        moved, again = mini.window("backward", *within), mini.window("backward", *summed)
        yield [first, moved, again]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", same=0.05, next=0.05, second=1.0))]
        yield [mini.window("backward", *told("train.py:9", same=1.0, next=0.05, second=0.05, future=0.0))]
        yield [mini.window("backward", *told("train.py:9", same=1.0, next=0.05, straight=1.0, forward=1.0))]
        yield [mini.window("backward", *told("train.py:9", same=1.0, next=0.05, straight=1.0, picked=1.0, future=1.0))]


def _given(look: Look) -> bool:
    """Whether targets that were picked out stand in the input."""
    return (look.picked or 0.0) >= ALMOST


def _in_order(look: Look) -> bool:
    """Whether each position knows only itself and those before it, and its own input reaches it."""
    return look.straight != 0.0 and (look.future == 0.0 or bool(look.straight and look.forward))


def _example(look: Look, wrong: str) -> Example:
    return Example(
        (),
        not wrong,
        {},
        variables=("labels", "cross_entropy") if wrong else (),
        expected="targets that are the next inputs",
        seen=f"targets that are {wrong}" if wrong else None,
        call=look.call,
        detail=f"The targets of the loss are {wrong}" if wrong else "",
    )
