"""Dropout that is called as a function ends in evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class DropoutFollowsMode(Relation):
    """A model in evaluation mode does not drop.

    ``F.dropout`` drops unless it is told otherwise: without ``training=self.training`` it goes on when the model is
    evaluated, and each evaluation gives another result.
    What is called with ``training=True`` on purpose, and parts that were put into training mode by hand, are not judged.
    """

    name = "dropout-follows-mode"
    midway = True
    needs = frozenset({"forward", "dropout"})
    wakes = frozenset({"dropout", "forward"})
    repeats = 1
    looks = frozenset({"dropout", "forward"})
    whole = False
    severity = "warning"
    priority = 14
    cause = "a functional dropout is called without training=self.training"
    advice = "pass training=self.training"

    def see(self, window: Window) -> Iterator[Example]:
        told = window.named("dropout")
        for call in told:
            seen = call.args or {}
            yield Example(
                (),
                False,
                {"model": seen.get("model")},
                variables=(call.object, seen.get("function", "dropout")),
                expected="no dropout in evaluation mode",
                seen=f"{seen.get('function')} with a rate of {seen.get('p'):g} in {call.object} ({seen.get('type')})",
                call=call,
                detail=f"{call.object} drops although {seen.get('model')} is in evaluation mode",
            )
        if not told and any((call.args or {}).get("training") is False for call in window.named("forward")):
            yield Example((), True, {})

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {}}).window(("forward model", {"args": {"training": False}}))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        seen = {"function": "dropout", "p": 0.2, "model": "model", "type": "Attention"}
        inside = [("dropout model.attention", {"args": seen})]
        yield [Mini({"model.weight": {}}).window(("forward model", {"args": {"training": False}, "inside": inside}))]
