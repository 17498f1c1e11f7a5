"""A loss does not run on through those of earlier steps."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_THROUGH = 3
"""Losses of earlier iterations, one within the other: one is used again by some who train several networks in turn."""


class LossesEndWithSteps(Relation):
    """What a backward pass begins at is not the sum of this loss and of those that were stepped on before.

    ``total_loss += loss`` and a backward pass through the total, whose graph must be kept for it: each pass goes through all
    earlier iterations once more, with weights that are others by now. Steps follow a direction that was right long ago, each
    one takes longer, and memory grows. A loss that is computed once, before the loop, is gone through in the same way.
    Judged at passes that go through the sums of earlier ones, in iterations of their own and with steps in between, of which
    each held the one before: three of them. A loss that is used twice for two optimizers in turn goes through one.
    """

    name = "losses-end-with-steps"
    needs = frozenset({"backward"})
    wakes = frozenset({"backward"})
    repeats = 2
    looks = frozenset({"backward"})
    whole = False
    priority = 9
    cause = "losses are added up as tensors over the steps, and the backward pass begins at the sum"
    advice = "call backward() on the loss of this batch; add loss.item() to what is printed, and drop retain_graph=True"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            through = int((call.args or {}).get("through") or 0)
            wrong = through >= _THROUGH
            yield Example(
                (),
                not wrong,
                {},
                variables=("loss", "retain_graph") if wrong else (),
                expected="a loss of what was computed since the last step",
                seen=f"a loss that holds those of {through} earlier iterations" if wrong else None,
                call=call,
                detail="The backward pass goes through the losses of earlier iterations again" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0, 0, 0, 0])
        yield _run([0, 1, 0, 1, 0, 1])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0, 1, 2, 3, 4])


def _run(depths: list[int]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    passes = [("backward", {"args": {"through": depth} if depth else {}}) for depth in depths]
    return [mini.window("forward model", call, "step optimizer0:SGD") for call in passes]
