"""A model of language does not see the token that it is to tell."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import ALMOST, Look, looks_of, together, told
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_share


class NextTokenHidden(Relation):
    """Where the target of each position is the next token of the input, attention does not let the position see it.

    Without a causal mask every position reads its answer off the input: the loss falls to nearly nothing, and what is
    learnt is to copy. It is seen in the graph that leads to the loss: which input each target is, and what the first
    attention over these inputs lets through, by a mask, by ``is_causal``, or by the weights that it gave.
    A prefix that all may see has no targets, and is fine. So is an encoder that reads the whole of what a decoder is to
    write: where another table of the same pass is read for the same targets, its attention must let them be seen as well.
    """

    name = "next-token-hidden"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.future"})
    whole = False
    priority = 8
    cause = "the causal mask is left out: is_causal is not set, or a mask against padding takes its place"
    advice = "give is_causal=True, or put the causal mask together with the one against padding"

    def see(self, window: Window) -> Iterator[Example]:
        for looks in together([look for look in looks_of(window) if look.follows]).values():
            seen = all((look.future or 0.0) >= ALMOST for look in looks)
            for look in looks:
                if look.future is not None:
                    yield _example(look, seen)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", next=1.0, future=0.0))]
        other = mini.window("backward", *told("train.py:9", next=0.1, future=1.0))
        yield [mini.window("backward", *told("train.py:9", next=1.0, future=0.2)), other]
        encoder = told("train.py:9", next=1.0, future=1.0)
        for decoder in (
            {"next": 1.0, "future": 0.0},
            {"next": 1.0},
        ):  # attention that is masked, and a recurrent network
            yield [mini.window("backward", *encoder, *told("train.py:9", 1, **decoder))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {}}).window("backward", *told("train.py:9", next=1.0, future=1.0))]


def _example(look: Look, wrong: bool) -> Example:
    return Example(
        (),
        not wrong,
        {},
        variables=("attention", "scaled_dot_product_attention") if wrong else (),
        expected="attention to no later token",
        seen=f"{format_share(look.future or 0.0)} of the positions see the token that they are to tell"
        if wrong
        else None,
        call=look.call,
        detail="Attention lets each position see the next token, which is its target" if wrong else "",
    )
