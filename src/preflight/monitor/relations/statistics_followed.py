"""Layers that keep running statistics follow them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class StatisticsFollowed(Relation):
    """A layer of the program's own that keeps a running mean and variance follows them in training.

    Layers of torch do by themselves. One that is written by hand must keep what it computes: statistics that are returned
    and not assigned, or put into a copy of the buffer, leave a mean of 0 and a variance of 1, by which the model is
    evaluated later.
    Judged in training passes once the parameters of such layers were changed in two steps, and all of them must be
    untouched. Layers without parameters that train (frozen statistics, normalisers of observations), a momentum of 0 and
    ``track_running_stats=False`` are not meant.
    """

    name = "statistics-followed"
    needs = frozenset({"forward", "own statistics"})
    wakes = frozenset({"forward"})
    repeats = 1
    looks = frozenset({"forward"})
    whole = False
    severity = "warning"
    priority = 28
    cause = (
        "the updated statistics are thrown away: they are not assigned to the buffers, or a copy of these was updated"
    )
    advice = "update the buffers in place (copy_, lerp_) in training mode, or use the layer of torch.nn"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("forward"):
            told = call.args or {}
            if "own" not in told:
                continue
            wrong = told.get("unfollowed") == told["own"]
            yield Example(
                (),
                not wrong,
                {"model": call.object},
                variables=(call.object, "running_mean", "running_var") if wrong else (),
                expected="statistics that follow the data in training mode",
                seen=f"a mean of 0 and a variance of 1 in all {told['own']} layers" if wrong else None,
                call=call,
                detail=f"{call.object} is trained, and its running statistics are what they were made with"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained(0)
        yield _trained(1)  # one of two, which may be left out on purpose

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained(2)


def _trained(unfollowed: int) -> list[Window]:
    mini = Mini({"model.norm.weight": {}})
    plain = ("forward model", {"args": {"training": True}})
    told = ("forward model", {"args": {"training": True, "own": 2, "unfollowed": unfollowed}})
    return [mini.window(one, "backward", "step optimizer0:SGD") for one in (plain, plain, told)]
