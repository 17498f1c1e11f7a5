"""Padding is neither looked at nor learnt."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.tokens import ALMOST, looks_of, told
from preflight.monitor.window import Window


class PaddingLeftOut(Relation):
    """Padding at an end of the sequences is hidden from the attention of real tokens, and is no target.

    What is padding shows in the inputs: one token repeated at an end, in some sequences longer than in others, whose
    labels are left out of the loss or which the table of tokens has as its ``padding_idx``; for the loss it is enough
    that a quarter of the inputs is this token and none of it lies elsewhere.
    Where the loss is not over tokens, padding shows in the table of tokens, or, where a mask is given, in the same way.
    It is broken where the first attention over these inputs lets the last real token of every sequence see all of it,
    or where all of it behind its first token, which may stand for the end of the text, is to be told by the model.
    Under a causal mask no token sees what comes after it, so padding on the right needs no mask.
    """

    name = "padding-left-out"
    midway = True
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar tokens.attended", "scalar tokens.learnt"})
    whole = False
    severity = "warning"
    priority = 9
    cause = "the mask is made for another number than that of the padding, the other way round, or is not handed on"
    advice = "compare the mask, the inputs and the labels of one batch with padding where the model is called"

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            for share, names, words in (
                (look.attended, ("attention_mask", "mask"), "attention sees the padding as it sees real tokens"),
                (look.learnt, ("labels", "ignore_index"), "the loss counts the padding as it counts real tokens"),
            ):
                if share is None:
                    continue
                wrong = share >= ALMOST
                yield Example(
                    (),
                    not wrong,
                    {},
                    variables=names if wrong else (),
                    expected="padding that is left out",
                    seen=words if wrong else None,
                    call=look.call,
                    detail=f"Padding is not left out: {words}" if wrong else "",
                )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", attended=0.0, learnt=0.0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", *told("train.py:9", attended=1.0))]
        yield [mini.window("backward", *told("train.py:9", learnt=1.0))]
