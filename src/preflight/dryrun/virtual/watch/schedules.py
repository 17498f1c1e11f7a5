"""Watches learning-rate schedulers and averages of weights."""

from __future__ import annotations

import weakref
from typing import Any

from torch.optim import lr_scheduler

_LENGTHS = "T_max total_steps step_size total_iters gamma".split()


def _lengths(scheduler: Any) -> dict[str, Any]:
    """Return the numbers that a schedule counts by."""
    found = {name: getattr(scheduler, name, None) for name in _LENGTHS}
    told: dict[str, Any] = {name: value for name, value in found.items() if isinstance(value, (int, float))}
    marks = getattr(scheduler, "milestones", None)
    if isinstance(marks, dict) and marks and all(isinstance(mark, int) for mark in marks):
        told["milestones"] = sorted(marks)
    return told


def watch(updates: Any) -> None:
    """Note schedulers that are made, and the steps that the script has them do."""
    made: weakref.WeakSet[Any] = weakref.WeakSet()
    making = [0]

    def watch_step(kind: Any) -> None:
        step = kind.step

        def stepped(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            # Schedulers step themselves, and those that they put together, while they are made; only the script's steps count.
            if scheduler not in made or making[0]:
                return step(scheduler, *args, **kwargs)
            told = {"scheduler": type(scheduler).__name__, "optimizer": updates.number(scheduler.optimizer)}
            told["given"] = bool(args or kwargs)  # the place in the schedule, or a metric, instead of one more step
            return updates.call("scheduler step", step, scheduler, *args, told=told, **kwargs)

        kind.step = stepped

    def watch_making(kind: Any) -> None:
        make = kind.__init__

        def begun(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            making[0] += 1
            try:
                make(scheduler, *args, **kwargs)
            finally:
                making[0] -= 1
            if not making[0] and scheduler not in made:
                made.add(scheduler)
                kind_of, number = type(scheduler).__name__, updates.number(scheduler.optimizer)
                updates.seen.note(
                    "scheduler made", each=True, scheduler=kind_of, optimizer=number, **_lengths(scheduler)
                )

        kind.__init__ = begun

    base = lr_scheduler.LRScheduler
    kinds = [base, *(k for k in vars(lr_scheduler).values() if isinstance(k, type) and issubclass(k, base))]
    for kind in dict.fromkeys(kinds):
        if "step" in vars(kind):
            watch_step(kind)
        if "__init__" in vars(kind):
            watch_making(kind)


def watch_averages(updates: Any) -> None:
    """Note when the script has an averaged model take in the weights."""
    from torch.optim.swa_utils import AveragedModel

    take = AveragedModel.update_parameters

    def taken(average: Any, *args: Any, **kwargs: Any) -> Any:
        return updates.call("average update", take, average, *args, told={}, **kwargs)

    AveragedModel.update_parameters = taken
