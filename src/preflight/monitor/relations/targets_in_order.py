"""Targets lie in the order of what is said of them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import ALMOST, looks_of, told
from preflight.monitor.window import Window


class TargetsInOrder(Relation):
    """Where scores and targets are laid out in one row for a loss, both have samples and positions in the same order.

    A recurrent layer gives its output positions first, and the batch has samples first. Flattened as they are, the score of
    one position is held against the target of another one of another sample; the sizes fit, and the loss falls to what
    can be said without the input.
    Judged where the targets are the next tokens of the inputs, or these themselves, in the order in which the inputs lie,
    or where they are a table with as many samples as the inputs have, and another number of positions, that is read in one
    row as it lies; and the way of each input to what is said at its own position can be followed. It is broken where samples
    and positions change places on it once; and where they do not on any way, and the targets are the next tokens only if
    they are read positions first.
    """

    name = "targets-in-order"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.turned", "scalar tokens.swapped", "scalar tokens.jumbled"})
    whole = False
    priority = 7
    cause = "the output lies positions first and the targets samples first, and both are flattened as they are"
    advice = "transpose the output or the targets before both are flattened, or make the layer with batch_first=True"

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            swapped = (look.swapped or 0.0) >= ALMOST
            known = look.turned is not None and look.straight and max(look.same or 0.0, look.next or 0.0) >= ALMOST
            if not swapped and not known and look.jumbled is None:
                continue
            wrong = swapped or look.jumbled == 1.0 or bool(known and look.turned == 1.0)
            yield Example(
                (),
                not wrong,
                {},
                variables=("targets", "cross_entropy") if wrong else (),
                expected="scores and targets in the same order",
                seen="scores with positions first, targets with samples first, or the other way round"
                if wrong
                else None,
                call=look.call,
                detail="Scores and targets of the loss lie in another order" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", next=1.0, straight=1.0, turned=0.0))]
        mini = Mini({"model.weight": {}})
        good = mini.window("backward", *told("train.py:9", next=1.0, straight=1.0, turned=0.0))
        other = told("train.py:9", next=0.1, straight=1.0, turned=0.0, swapped=0.2)  # targets of another kind
        yield [good, mini.window("backward", *other)]
        mini = Mini({"model.weight": {}})  # of a tagger that moves the positions first and its targets with them
        moved = mini.window("backward", *told("train.py:9", same=0.3, straight=1.0, turned=1.0))
        yield [moved, mini.window("backward", *told("train.py:9", same=0.3, straight=1.0, turned=0.0, jumbled=0.0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", next=1.0, straight=1.0, turned=1.0))]
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", next=0.1, straight=1.0, turned=0.0, swapped=1.0))]
        mini = Mini({"model.weight": {}})  # of a tagger with a layer that goes both ways
        yield [mini.window("backward", *told("train.py:9", same=0.3, straight=0.0, turned=0.0, jumbled=1.0))]
