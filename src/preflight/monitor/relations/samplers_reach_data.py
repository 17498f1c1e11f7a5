"""A sampler reaches all of its loader's data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class SamplersReachData(Relation):
    """A sampler draws from as many samples as the data set of its loader has.

    ``WeightedRandomSampler`` takes a weight for each sample. Given one for each class, it draws the first few samples of
    the data over and over, one for each class, and the rest is never seen. A sampler that was made for another data set,
    such as that of the evaluation, does not reach beyond the length of that one.
    Judged where a loader is first used. A sampler over plain numbers that the program chose itself (``range``, a list of
    indices) is meant to be a part, and so is one whose own indices are a part.
    """

    name = "samplers-reach-data"
    category = "data"
    needs = frozenset({"loader.new"})
    wakes = frozenset({"loader.new"})
    whole = False
    priority = 6
    cause = "the sampler was given weights of classes instead of samples, or was made for another data set"
    advice = "give WeightedRandomSampler one weight for each sample (weights[labels]), and each loader a sampler of its own data"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("loader.new"):
            told = call.args or {}
            reach, length = told.get("reach"), told.get("length")
            if not isinstance(reach, int) or not isinstance(length, int):
                continue
            wrong = reach < length
            yield Example(
                (),
                not wrong,
                {},
                variables=(call.object, str(told.get("sampler"))) if wrong else (),
                expected=f"{length} samples that can be drawn",
                seen=f"a {told.get('sampler')} over {reach}" if wrong else None,
                call=call,
                detail=f"{told.get('sampler')} can draw {reach} of the {length} samples of {call.object}"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _made({"sampler": "WeightedRandomSampler", "reach": 640, "length": 640})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _made({"sampler": "WeightedRandomSampler", "reach": 4, "length": 640})


def _made(facts: dict[str, Any]) -> list[Window]:
    return [Mini({"model.weight": {}}).window(("loader.new loader0", {"args": facts}), "backward")]
