"""The units of a layer are not copies of each other."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_NAME = "units.alike"


class UnitsDiffer(Relation):
    """After its first steps a weight does not hold the same numbers, with the same gradients, for all of its units.

    Where all weights of a layer begin at one number, its units compute the same and get the same gradients, so that they
    stay copies of each other for ever: a layer of a hundred units is worth one.
    Judged once for each optimizer, after two steps: whether the first rows of a weight are one and the same, and those of
    its gradient are, and are not zero. Weights that begin at zero on purpose, as the last layer of a branch or one half of
    an adapter, get different gradients for their rows and are different by then.
    """

    name = "units-differ"
    needs = frozenset({"step", "scalar", _NAME})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 12
    cause = "the weights are initialised with a constant, or one row is copied to all others"
    advice = (
        "initialise with random numbers (nn.init.kaiming_uniform_, xavier_uniform_); constants are for biases and norms"
    )

    def see(self, window: Window) -> Iterator[Example]:
        told = [one for one in window.numbers if one.name == _NAME]
        if not told:
            return
        names = tuple(one.object for one in told if one.value)
        steps = window.named("step")
        yield Example(
            (),
            not names,
            {},
            variables=names,
            expected="rows that differ",
            seen=counted(len(names), "weight", "weights") + " whose rows are all the same, and get the same gradients"
            if names
            else None,
            call=steps[0] if steps else None,
            detail="All units of a layer are copies of each other, and stay so" if names else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("", 0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("model.fc.weight", 1.0)


def _run(name: str, value: float) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    return [mini.window("backward", ("scalar", _NAME, name, value), "step optimizer0:SGD")]
