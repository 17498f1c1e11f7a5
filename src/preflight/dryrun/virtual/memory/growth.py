"""Memory that grows from step to step, or from round to round of a loop that evaluates.

At the end of optimizer step k, what was made in step j and is still there at the end of step j + 2 is looked at by the line
that made it. A line that left something in every step since the second makes memory grow; one that did so once or twice
fills a cache. The first suspicion lets the run go on to the sixth step, which confirms or drops it.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from preflight.dryrun.virtual.engine.gpu import VirtualGpu
from preflight.dryrun.virtual.loops import Loop, Rounds
from preflight.dryrun.virtual.memory import keepers
from preflight.dryrun.virtual.memory import ledger as words

CONFIRM = 6
"""Steps after which a suspicion is decided."""
LARGEST = 5
_EXPECTED = frozenset((words.PARAMETER, words.GRADIENT, words.STATE, words.BUFFER, words.COMMUNICATION, "workspace"))

Group = tuple[str, str, str]
"""Category, module and line of what was made."""


class Growth:
    """Watches the steps and the loops of one run.

    Attributes:
        found: What grew, as plain values.
    """

    def __init__(self, gpu: VirtualGpu, rounds: Rounds) -> None:
        self.gpu, self.progress, self.rounds = gpu, gpu.progress, rounds
        self.found: list[dict[str, Any]] = []
        self._asked = self._wanted = self.progress.limit
        self._done = False
        self._sequence = [0]

    def end_step(self) -> None:
        """An optimizer step has ended; the run may be told to do more of them."""
        done = self.progress.step
        self._sequence.append(keepers.sequence_number())
        if self._done or done < min(self._asked, CONFIRM):
            return
        left = self._left(done)
        growing = _in_every(left, range(0 if done == 2 else 1, done - 1))
        if not growing or done >= max(CONFIRM, self._asked):
            self._done, self.progress.limit = True, self._asked
            if growing:
                self._conclude(left, growing, done)
        else:
            # Of two steps, only the first can have left something, and it may have filled caches.
            self.progress.limit = 3 if done == 2 else max(CONFIRM, self._asked)

    def _left(self, done: int) -> dict[Group, Counter[int]]:
        """Return the bytes that are left of each step, by the line that made them."""
        left: dict[Group, Counter[int]] = {}
        for holding in self.gpu.ledger.live.values():
            if holding.step <= done - 2 and holding.phase != "init" and holding.category not in _EXPECTED:
                left.setdefault(_group(holding), Counter())[holding.step] += holding.held
        return left

    def _conclude(self, left: dict[Group, Counter[int]], growing: list[Group], done: int) -> None:
        steps = range(1, done - 1)
        kept: dict[Group, set[int]] = {group: set() for group in growing}
        for key, holding in self.gpu.ledger.live.items():
            if holding.step in steps and _group(holding) in kept:
                kept[_group(holding)].add(key)
        frames = self.rounds.around()
        peaks = [p for (step, _), p in self.gpu.ledger.peaks.items() if step == done - 1]
        for keeper, groups in _by_keeper(keepers.find(kept, self._sequence[-2], self.progress)):
            each = [sum(left[group][step] for group in groups) for step in steps]
            bounded, length = _reach(keeper, frames, done)
            self._note(
                keeper,
                phase="training",
                bytes=sum(each) // len(each),
                steady=len(set(each)) == 1,
                seen=done,
                length=length,
                bounded=bounded,
                allocated=max((p.allocated for p in peaks), default=0),
                reserved=max((p.reserved for p in peaks), default=0),
                loop=self._shown(frames[-1].name) if frames else "",
                holders=_largest({g: sum(left[g][step] for step in steps) // len(each) for g in groups}),
            )

    def end_loop(self, loop: Loop, each: int, before: int, steady: bool) -> None:
        """A loop that only evaluates is cut although its last rounds kept more and more.

        Args:
            loop: The loop.
            each: Bytes that one round kept.
            before: The number of the first storage of the last two rounds.
            steady: Whether the last rounds kept as much; else it is their mean.
        """
        ledger = self.gpu.ledger
        kept: dict[Group, set[int]] = {}
        sizes: Counter[Group] = Counter()
        for key, holding in ledger.live.items():
            if holding.number >= before and holding.category not in _EXPECTED:
                kept.setdefault(_group(holding), set()).add(key)
                sizes[_group(holding)] += holding.held // 2
        keeper = _by_keeper(keepers.find(kept, 0, self.progress))[:1]
        for who, _ in keeper:
            self._note(
                who,
                phase="evaluation",
                bytes=each,
                steady=steady,
                seen=loop.rounds,
                length=loop.size,
                bounded=who.limited or who.emptied_within(loop.name),
                allocated=ledger.allocated,
                reserved=ledger.allocator.reserved + ledger.unplaced,
                loop=self._shown(loop.name),
                holders=_largest(sizes),
            )

    def _note(self, keeper: keepers.Keeper, **more: Any) -> None:
        self.found.append({**more, **keeper.told()})

    def _shown(self, name: str) -> str:
        file, _, line = name.rpartition(":")
        return f"{os.path.relpath(file, self.progress.root)}:{line}" if file else name


def _group(holding: words.Holding) -> Group:
    return holding.category or words.ACTIVATION, holding.module, holding.line


def _by_keeper(found: dict[Group, keepers.Keeper]) -> list[tuple[keepers.Keeper, list[Group]]]:
    """Return the groups that each keeper holds."""
    by_name: dict[tuple[str, str], tuple[keepers.Keeper, list[Group]]] = {}
    for group, keeper in found.items():
        by_name.setdefault((keeper.name, keeper.kind), (keeper, []))[1].append(group)
    return list(by_name.values())


def _in_every(left: dict[Group, Counter[int]], steps: range) -> list[Group]:
    """Return the groups of which every one of some steps left something."""
    return [group for group, by_step in left.items() if steps and all(by_step[step] for step in steps)]


def _largest(groups: dict[Group, int]) -> list[dict[str, Any]]:
    return [
        {"category": category, "module": module, "line": line, "bytes": size}
        for (category, module, line), size in Counter(groups).most_common(LARGEST)
    ]


def _reach(keeper: keepers.Keeper, frames: list[Any], done: int) -> tuple[bool, int | None]:
    """Return whether the growth ends by itself, and the steps over which it goes on.

    Args:
        keeper: Who keeps it; who empties it in the loop over the epochs lets it grow through one epoch only.
        frames: The loops around the step, the outermost first.
        done: Optimizer steps done.
    """
    if keeper.limited:
        return True, None
    if not frames:
        return False, None
    inner = frames[-1]
    if keeper.emptied_within(inner.name):
        return True, None
    done_here = max(1, done - inner.steps)
    length = None if inner.size is None else inner.size * done_here // max(1, inner.rounds)
    if keeper.emptied:
        return False, length
    for frame in frames[:-1]:
        length = None if length is None or frame.size is None else length * frame.size
    return False, length


def install(gpu: VirtualGpu, rounds: Rounds) -> Growth:
    """Watch a run."""
    growth = Growth(gpu, rounds)
    gpu.progress.after_step.append(growth.end_step)
    rounds.growth = growth
    return growth
