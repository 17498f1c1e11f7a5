"""A step waits for the end of its accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window


class StepsEndAccumulation(Relation):
    """Where a program says that gradients are being accumulated, no optimizer steps in the middle of that.

    Accelerate divides each loss by the number of passes that are to be accumulated, and skips the steps in between: those
    of optimizers that were handed to ``prepare``. An optimizer that was not, or is called past its wrapper, steps after
    each pass, on gradients that are a fraction of what they should be, and that the ranks have not exchanged.
    Judged at each step of a program that set up an accumulation of more than one pass there.
    """

    name = "steps-end-accumulation"
    midway = True
    needs = frozenset({"step"})
    wakes = frozenset({"step"})
    repeats = 1
    looks = frozenset({"step"})
    whole = False
    priority = 12
    cause = "the optimizer was not handed to accelerator.prepare(), or is stepped past what prepare() returned"
    advice = "use what accelerator.prepare(model, optimizer, ...) returns, for every optimizer"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            amidst = (call.args or {}).get("accumulating")
            if amidst is None:
                continue
            roots = sorted(window.run.roots(optimizer_number(call))) if amidst else ()
            yield Example(
                (),
                not amidst,
                {"optimizer": call.object.split(":")[-1]},
                variables=(call.object, *roots) if amidst else (),
                expected="a step when the last pass has been accumulated",
                seen="a step amidst an accumulation" if amidst else None,
                call=call,
                detail=f"{call.object} steps while gradients are still being accumulated" if amidst else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _accumulated(False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _accumulated(True)


def _accumulated(amidst: bool) -> list[Window]:
    mini = Mini({"model.weight": {}})
    step = ("step optimizer0:SGD", {"args": {"closure": False, "accumulating": amidst}})
    return [mini.window("forward model", "backward", step) for _ in range(2)]
