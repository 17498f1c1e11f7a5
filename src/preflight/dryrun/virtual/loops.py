"""Loops of the script, cut short once another round would show nothing new.

The person's own modules are compiled (``compiling``) with every loop asking here for its next round; ``judging`` says when
there need be no other. Loops that call no module and those of generators run to their end.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from preflight.dryrun.virtual.compiling import FILES, LINES, UNMARKED
from preflight.dryrun.virtual.device import Device
from preflight.dryrun.virtual.judging import Judge

LOADER = "DataLoader"
"""The name of a loop that PyTorch's loader makes for somebody else's."""
_PHASES = 4
_DEEP = 3
"""So deep is looked for a tensor in what a loop's item holds."""
_OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


@dataclass(eq=False, slots=True)
class Loop:
    """A loop that runs.

    Attributes:
        name: Its place.
        size: Its length, where that is known.
        steps: Optimizer steps done before it.
        depth: Modules whose forward runs around it.
        rounds: Rounds begun.
        begun: Number of the last observation before it.
        words: Whether it goes over a few words, that is, phases, ``("train", "val")``: each of them is another program.
        data: Whether it goes over batches.
        began: When it began.
        cut: Whether it was ended early.
    """

    name: str
    size: int | None
    steps: int
    depth: int = 0
    rounds: int = 0
    begun: int = 0
    words: bool = False
    data: bool = False
    began: float = field(default_factory=time.monotonic)
    cut: bool = False


def _length(items: Sized) -> int | None:
    try:
        return len(items)
    except TypeError:  # a loader over a stream of data has none
        return None


def _batch(item: Any, deep: int = _DEEP) -> bool:
    """Whether an item of a loop holds a tensor, or something that can be moved as one."""
    if isinstance(item, torch.Tensor) or hasattr(item, "to"):
        return True
    if isinstance(item, Mapping):
        item = list(item.values())
    return isinstance(item, (list, tuple)) and deep > 0 and any(_batch(part, deep - 1) for part in item[:8])


class Rounds:
    """Gives loops their items.

    Attributes:
        cut: The loops that were ended early: (file:line) to (rounds run, length or None).
        given: The batches that the person described, for a loop over something that is missing.
        growth: Is told of loops that are cut although they keep more and more.
        modes: Is told of training loops that are cut.
    """

    def __init__(self, gpu: Device) -> None:
        self.gpu = gpu
        self.cut: dict[str, tuple[int, int | None]] = {}
        self.blocks: set[int] = set()
        self.given: Any = None
        self.growth: Any = None
        self.modes: Any = None
        self.accumulating: set[str] = set()  # loops that ran to their end with gradients and without a step
        self.seconds: dict[str, float] = {}  # loops that ran to their end, and how long that took
        self._running: list[Loop] = []
        self._told: dict[int, int] = {}

    def around(self) -> list[Loop]:
        """Return the loops that run now, the outermost first; loaders' own only where the script has none around them."""
        own = [loop for loop in self._running if loop.name != LOADER]
        return own or self._running[-1:]

    def reached(self) -> dict[str, list[int]]:
        """Return the first lines of the blocks that ran, by file; a block is what is indented alike below a statement."""
        found: dict[str, list[int]] = {name: [] for name in FILES if name not in UNMARKED}
        for number in sorted(self.blocks):
            found[FILES[number // LINES]].append(number % LINES)
        return found

    def __call__(self, items: Iterable[Any], line: int) -> Iterable[Any]:
        """Return the items of a loop of the script."""
        if self.gpu.progress.modules and torch.is_grad_enabled():
            return items
        if self.given is not None and not self.gpu.progress.modules:
            items = self.given.instead_of(items)
        told = self._told.pop(line, None)
        size = _length(items) if isinstance(items, Sized) else told
        return self.follow(items, f"{sys._getframe(1).f_code.co_filename}:{line}", size)

    def sized(self, items: Any, line: int) -> Any:
        """Remember the length of what the loop at a line goes over, the shortest of several; give it back as it is."""
        size = _length(items) if isinstance(items, Sized) else None
        if size is not None:
            self._told[line] = min(size, self._told.get(line, size))
        return items

    def follow(self, items: Iterable[Any], name: str, size: int | None) -> Iterator[Any]:
        """Yield items until the loop may end.

        Args:
            items: What the loop goes over.
            name: How the loop is called when it is cut.
            size: Its length, where that is known.
        """
        progress = self.gpu.progress
        loop = Loop(
            name, size, progress.step, len(progress.modules), data=isinstance(items, DataLoader) or name == LOADER
        )
        self.enter(loop)
        try:
            yield from self._until_enough(items, loop)
        finally:
            self.leave(loop)

    def enter(self, loop: Loop) -> None:
        """A loop begins."""
        loop.begun = self.modes.seen.serial if self.modes is not None else 0
        self._running.append(loop)
        self.gpu.progress.watch_calls(loop.depth, 1)

    def leave(self, loop: Loop) -> None:
        """A loop has ended."""
        self._running.remove(loop)
        self.gpu.progress.watch_calls(loop.depth, -1)
        if not loop.cut:
            self.seconds[loop.name] = time.monotonic() - loop.began

    def _until_enough(self, items: Iterable[Any], loop: Loop) -> Iterator[Any]:
        judge = Judge(self, loop)
        for item in items:
            judge.begin_round()
            loop.data = loop.data or (loop.rounds == 1 and _batch(item))
            loop.words = isinstance(item, str) and loop.size is not None and loop.size <= _PHASES
            yield item
            if judge.enough():
                if loop.name == LOADER and self._taken_by_the_script():
                    continue
                return
            if isinstance(items, range) and judge.accumulates() and len(items) > loop.rounds + 1:
                judge.skip(len(items) - loop.rounds - 1)
                yield items[-1]
                return
        judge.end()

    def _taken_by_the_script(self) -> bool:
        """Whether a loader's items are taken by ``next()`` in the script, where it must not end; or by a loop of ours."""
        frame = sys._getframe(2).f_back
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            if frame.f_code is Rounds._until_enough.__code__:
                return True
            frame = frame.f_back
        return frame is not None and self.gpu.progress.owns(frame.f_code.co_filename)

    def begin(self, line: int) -> While:
        """Begin a ``while`` loop of the script."""
        name = f"{sys._getframe(1).f_code.co_filename}:{line}"
        progress = self.gpu.progress
        if progress.modules and torch.is_grad_enabled():
            return While(self, None)
        return While(self, Loop(name, None, progress.step, len(progress.modules)))


class While:
    """A ``while`` loop that runs.

    Args:
        rounds: Where loops are noted.
        loop: The loop; None inside a module that records a graph, where loops run to their end.
    """

    def __init__(self, rounds: Rounds, loop: Loop | None) -> None:
        self.rounds, self.loop = rounds, loop
        self.judge = None if loop is None else Judge(rounds, loop)
        if loop is not None:
            rounds.enter(loop)

    def more(self) -> bool:
        """Whether there is to be another round."""
        if self.judge is None or self.loop is None:
            return True
        if self.loop.rounds and self.judge.enough():
            return False
        self.judge.begin_round()
        return True

    def end(self) -> None:
        """The loop has ended, in whatever way."""
        if self.loop is not None:
            self.rounds.leave(self.loop)
