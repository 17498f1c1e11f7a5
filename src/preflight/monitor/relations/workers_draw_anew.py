"""Loader workers draw new random numbers in each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class WorkersDrawAnew(Relation):
    """A worker of a loader for training does not begin two epochs with the same state of a generator that it draws from.

    Where workers are started anew for each epoch, a generator that is seeded with the worker's number alone, or one that
    the main process holds and never moves, gives the same augmentations in every epoch.
    Only generators that the first sample of both epochs moved are compared, and only loaders that are read with
    gradients switched on: an evaluation may well draw the same each time.
    """

    name = "workers-draw-anew"
    category = "data"
    needs = frozenset({"fetch"})
    wakes = frozenset({"worker"})
    severity = "warning"
    priority = 7
    cause = "worker_init_fn seeds with the worker's number alone, or a generator in the dataset is copied at each start"
    advice = "derive the seed from torch.initial_seed(), which differs in each epoch, or keep the workers"

    def __init__(self) -> None:
        self._before: dict[tuple[str, int], dict[str, Any]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("worker"):
            if not call.context.startswith("grad"):
                continue
            told = call.args or {}
            place = call.object, told["worker"]
            before = self._before.get(place)
            self._before[place] = told
            if before is None or before["epoch"] == told["epoch"]:
                continue
            both = set(before["used"]) & set(told["used"])
            if not both:
                continue
            alike = sorted(word for word in both if before[word] == told[word])
            yield Example(
                (),
                not alike,
                {"sources": ",".join(sorted(both))},
                variables=(call.object,) if alike else (),
                expected="another state than in the epoch before",
                seen=f"the same state of {', '.join(alike)}" if alike else None,
                call=call,
                detail=f"Workers of {call.object} draw the same random numbers in each epoch" if alike else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _epochs((11, ["numpy"]), (12, ["numpy"]))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _epochs((11, ["numpy"]), (11, ["numpy"]))


def _epochs(*states: tuple[int, list[str]]) -> list[Window]:
    mini = Mini()
    return [
        mini.window(
            (
                "worker loader0",
                {"args": {"epoch": n, "worker": 0, "torch": n, "numpy": state, "python": n, "own": 0, "used": used}},
            )
        )
        for n, (state, used) in enumerate(states)
    ]
