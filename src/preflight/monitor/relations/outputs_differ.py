"""A model gives different samples different outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Number, Window

_NAME = "outputs.alike"
_IN_A_ROW = 2
_FROM_THE_START = 3
_NOTHING = 1e-6
"""The share of the largest gradient of which the rest is rounding."""


class _Row(NamedTuple):
    """Looks in a row in which all outputs were the same.

    Attributes:
        looks: How many.
        since: How many steps had been done at the first of them.
        varied: Whether outputs differed before.
    """

    looks: int = 0
    since: int = 0
    varied: bool = False


class OutputsDiffer(Relation):
    """What a model gives for a batch of different samples is not one and the same for all of them.

    Where all units of a layer are dead, a normalisation goes over a single number, or the input is lost on its way, what
    is left are biases: the loss falls to that of the best constant, and stays there.
    Told of models whose first tensor has eight samples or more that differ, in passes that train, where the outputs are
    equal to the last digit: in two looks in a row with a step in between after they had differed, or in three from the
    start. A last layer that begins at zero gives the same for all until its first step at a rate above zero. Where the gradients get down to the
    first weights all the same, as where codes are rounded and the gradients are handed past that, the samples can part again.
    """

    name = "outputs-differ"
    midway = True
    needs = frozenset({"forward", "step", "state", "scalar", "outputs.alike"})
    wakes = frozenset({"scalar outputs.alike"})
    whole = False
    severity = "warning"
    priority = 13
    cause = "all units of a layer are dead, a normalisation or softmax goes over one number, or the input is lost on its way"
    advice = (
        "look at the outputs of the parts, one after the other, for two samples: where they become equal lies the cause"
    )

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _NAME or number.value is None:
                continue
            row = self._rows.get(number.object, _Row())
            if number.value and (_reached(number, window) or _still(window)):
                yield Example((), True, {})
                continue
            if not number.value:
                self._rows[number.object] = _Row(varied=True)
                yield Example((), True, {})
                continue
            row = row._replace(looks=row.looks + 1, since=row.since if row.looks else number.s)
            self._rows[number.object] = row
            enough = _IN_A_ROW if row.varied else _FROM_THE_START
            wrong = row.looks >= enough and number.s - row.since >= enough - 1
            call = next(
                (one for one in window.named("forward") if one.q < number.q and one.object == number.object), None
            )
            yield Example(
                (),
                not wrong,
                {},
                variables=(number.object,) if wrong else (),
                expected="different outputs for different samples",
                seen=f"the same output for all samples in {row.looks} looks" if wrong else None,
                call=call,
                detail=f"{number.object} gives the same output for all samples of a batch" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _looks(0, 0, 0)
        yield _looks(1, 1, 0, 0)  # a last layer that begins at zero, and a first step with a rate of zero
        yield _looks(0, 1, 0)
        yield _looks(1, 1, 1, 1, rate=0.0)
        yield _looks(0, 1, 1, 1, gradients={"model.first.weight": 0.1, "model.last.weight": 0.5})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _looks(1, 1, 1)
        yield _looks(0, 1, 1)
        yield _looks(0, 1, 1, gradients={"model.first.weight": 0.0, "model.last.weight": 0.5})


def _still(window: Window) -> bool:
    """Whether every rate that is told is zero: nothing moves yet."""
    rates = [one.value for one in window.numbers if one.name == "lr"]
    return bool(rates) and not any(rates)


def _reached(number: Number, window: Window) -> bool:
    """Whether the step that follows a look finds a gradient in the first weights of the model, and not in these alone."""
    for step in steps_of(window):
        if step.call.q < number.q or step.gradients is None:
            continue
        held = (
            (window.run.variables.get(ident), norm)
            for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True)
        )
        root = f"{number.object}."
        norms = [norm or 0.0 for one, norm in held if one is not None and one.name.startswith(root)]
        return len(norms) > 1 and norms[0] > _NOTHING * max(norms)
    return False


def _looks(*alike: int, gradients: dict[str, float] | None = None, rate: float = 0.1) -> list[Window]:
    mini = Mini({name: {} for name in gradients or ("model.weight",)})
    found: tuple[Any, ...] = (("gradients", gradients),) if gradients else ()
    found = (*found, ("scalar", "lr", "optimizer0:SGD.0", rate))
    return [
        mini.window("forward model", ("scalar", _NAME, "model", float(one)), "backward", *found, "step optimizer0:SGD")
        for one in alike
    ]
