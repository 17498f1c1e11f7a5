"""A window of a series ends before what is to be foretold."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "windows.known"


class WindowsEndBeforeTargets(Relation):
    """A value that is to be foretold does not stand in the window that it is foretold from.

    Where the slice that makes a window reaches one step too far, its last value is the target: the loss falls to nothing,
    and the model learns to say again what it was told.
    Judged are batches of a loader that is trained with, of two tensors: windows, and one value or one line of values for
    each. It is broken where the target of every row stands in the row, at one place, and the rows are windows of one series:
    some of them are others moved on. A task in which a value is to be remembered has rows of its own, and is left alone; so
    is what is to be rebuilt from itself, of which the targets are whole windows, and the middle of a window, which is to be
    filled in from both sides.
    """

    name = "windows-end-before-targets"
    midway = True
    category = "data"
    needs = frozenset({_NAME, "scalar", "batch"})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    severity = "warning"
    priority = 5
    cause = "the slice of the window and the index of its target are off by one, or the target's own column is an input"
    advice = "end the window before the target: series[i:end] with the target series[end]"

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _NAME or number.value is None:
                continue
            loader, _, place = number.object.partition("#")
            wrong = number.value > 0
            calls = [call for call in window.named("fetch") if call.object == loader]
            yield Example(
                (),
                not wrong,
                {},
                variables=(loader,) if wrong else (),
                expected="targets that come after their windows" if wrong else None,
                seen=f"targets that are value {place} of their own windows" if wrong else None,
                call=calls[-1] if calls else None,
                detail=f"The targets of {loader} stand in its windows, as value {place}" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _given("loader0#", 0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _given("loader0#24 of 24", 1.0)


def _given(subject: str, value: float) -> list[Window]:
    rows = ("fetch loader0", ("scalar", _NAME, subject, value), "forward model", "backward", "step optimizer0:SGD")
    return [Mini({"model.weight": {}}).window(*rows)]
