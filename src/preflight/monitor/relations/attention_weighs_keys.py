"""The weights of an attention sum to one over what they weigh."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import looks_of, told
from preflight.monitor.window import Window


class AttentionWeighsKeys(Relation):
    """The weights that an attention adds up its values with sum to one over these values.

    A softmax over another axis (the heads, the queries, the samples) gives weights that compete with those of others
    instead: how much of what a position attends to arrives is left to chance, and a mask hides nothing any more. All
    shapes fit, and the loss falls.
    Judged are attentions that are written out with a softmax over products, whose result weighs the values as it is. One
    that is divided by its sum first, as in slot attention, and one that is turned before, as in linear attention, are not.
    Of things other than tokens (parts of a picture, moments of a series) those are judged that have as many queries as keys.
    Of tokens it is also seen where the weights themselves are turned, or given to the product from the right: then each
    position is sent what others attend to. There, too, it must be a softmax over as many queries as keys.
    """

    name = "attention-weighs-keys"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.crosswise"})
    whole = False
    priority = 7
    cause = "softmax is given the wrong dim, such as that of the heads, or the weights are transposed"
    advice = "use softmax(dim=-1) over scores of shape (..., queries, keys), and multiply values with it from the left"

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            if look.crosswise is None:
                continue
            wrong = look.crosswise == 1.0
            yield Example(
                (),
                not wrong,
                {},
                variables=("attention", "softmax") if wrong else (),
                expected="a softmax over the keys, the last axis",
                seen="a softmax over another axis" if wrong else None,
                call=look.call,
                detail="The weights of an attention sum to one over another axis than that which they go over"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", crosswise=0.0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", crosswise=1.0))]
