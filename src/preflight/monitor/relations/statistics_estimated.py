"""A model is evaluated with statistics that were estimated."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class StatisticsEstimated(Relation):
    """Layers that normalise by running statistics are not evaluated with the ones that they were made with.

    A mean of 0 and a variance of 1 are what such a layer begins with. A moving average of the weights that leaves out the
    buffers keeps them for ever, and so does a model that was never in training mode: its results in evaluation mode have
    nothing to do with what was trained.
    Judged in evaluation mode after some steps, for models whose parameters were changed again and again; all layers must
    be untouched.
    """

    name = "statistics-estimated"
    needs = frozenset({"forward"})
    wakes = frozenset({"forward"})
    repeats = 1
    looks = frozenset({"forward"})
    whole = False
    severity = "warning"
    priority = 29
    cause = (
        "a moving average of the weights leaves out the buffers, or the statistics were reset and not estimated again"
    )
    advice = "copy the buffers into the averaged model (use_buffers=True), or call update_bn before it is evaluated"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("forward"):
            told = call.args or {}
            if "untouched" not in told:
                continue
            wrong = told["untouched"] == told.get("norms")
            yield Example(
                (),
                not wrong,
                {"model": call.object},
                variables=(call.object, "running_mean", "running_var") if wrong else (),
                expected="statistics that were estimated",
                seen=f"a mean of 0 and a variance of 1 in all {told['untouched']} layers" if wrong else None,
                call=call,
                detail=f"{call.object} is evaluated with running statistics that were never estimated" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _evaluated(0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _evaluated(2)


def _evaluated(untouched: int) -> list[Window]:
    args = {"training": False, "norms": 2, "norm": 0, "untouched": untouched}
    return [Mini({"model.weight": {}}).window(("forward ema", {"args": args, "context": "nograd"}))]
