"""The memory of the GPU is the one that the dry run saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary import prediction
from preflight.vocabulary.quantity import MIB, format_bytes


class MemoryAsPredicted(Relation):
    """The highest number of bytes that CUDA's allocator has handed out follows the memory timeline of the dry run.

    `preflight check --dry-run --expectations FILE` writes what it saw: how many bytes are the most until the first step
    is done, after one step, after two, and over the whole run. A run that needs more than that is nearer to running out
    than was said; one that needs less trains something else than was looked at.
    A peak is as predicted within 5 %, in which all published peaks lie that a dry run was compared with, and two
    workspaces of cuBLAS (64 MiB).

    Only the books of CUDA's allocator are compared. Of a run without a GPU nothing is judged: the pages of its process
    are another quantity. Of a process with several devices the fullest counts.
    Where ranks differ, the lower bound holds for the rank that the dry run found to be the fullest, the upper one for all.
    """

    name = prediction.MEMORY
    needs = frozenset({"memory"})
    wakes = needs
    whole = False
    severity = "warning"
    priority = 13
    predicted = True
    bounded = True
    unjudged = "nothing was allocated on a GPU; what a process holds of the host is another quantity"
    cause = "the run has other arguments, other batches or other versions than the dry run had"
    advice = (
        "compare the two command lines and the sizes of the batches; where the run is right, do the dry run again "
        "with its arguments"
    )

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for row in window.memory:
            if row.peak is None:
                continue
            # A program may set the peaks of its allocator back: the highest that was seen is the peak of the run.
            self._most[row.device] = max(row.peak, self._most.get(row.device, 0))
            device = max(self._most, key=lambda name: (self._most[name], name))
            if device == row.device:
                peak = self._most[device]
                steps = "one step" if row.s == 1 else f"{row.s} steps"
                detail = f"After {steps}, {format_bytes(peak)} of {device} is the most that was allocated"
                yield Example((), True, {}, (device,), value=(window.rank, row.s, peak), detail=detail)

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        rank, steps, peak = value
        return prediction.peak_expected(subject, rank, steps, peak)

    @classmethod
    def words(cls, value: Any) -> Any:
        return format_bytes(value[2])

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return prediction.of_memory(subject)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _steps(800 * MIB, 1000 * MIB)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _steps(800 * MIB, 1400 * MIB)


def _steps(*peaks: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("backward", "step optimizer0:SGD", ("memory", peak)) for peak in peaks]
