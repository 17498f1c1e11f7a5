"""Takes the rows of a trace folder to the engine, from a finished folder or one that grows, with the same answer.

The order in which windows are judged follows from the trace alone: iteration by iteration, within one by rank.
Where a rank is behind, the others wait for it, so that it does not matter in which pieces the rows come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from preflight.monitor.judging.assemble import Assembler
from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Failure
from preflight.monitor.series import Watching
from preflight.monitor.trace.folder import Batch, TraceFolder
from preflight.monitor.trace.process import Process
from preflight.monitor.trace.reader import Block
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant, Violation

PATIENCE = 15.0
"""Seconds that the ranks of a growing trace wait for one that has written nothing yet."""
DEAD_AFTER = 1.0
"""Seconds without a lock and without rows after which a process is taken to be gone."""
MOST_BEHIND = 256
"""Iterations by which a rank may be behind before the others go on without it."""
_TELL_EVERY = 64
"""Iterations of all ranks after which a long look says how far it is."""


class Lane:
    """The windows of one process, one at a time.

    Where rows were lost in its middle, it ends there as that of a killed process does: what comes later rests on rows
    that nobody knows, and would be judged wrongly.
    """

    def __init__(self, process: Process, source: Iterator[Batch] | None) -> None:
        self.process = process
        self.assembler = Assembler()
        self.window: Window | None = None
        self.over = False  # it gives no more windows
        self.closed = False  # it gives no more rows
        self.unlocked: float | None = None  # since when nobody seems to write
        self._source = source
        self._blocks: deque[Block] = deque()
        self._windows: Iterator[Window] | None = None
        self._last = False
        self._next = 0

    def put(self, block: Block) -> None:
        """Take a block that has come."""
        if self.process.unjudged is None:
            self._blocks.append(block)
        self.unlocked = None

    def look(self) -> Window | None:
        """The next window, or None where there is none yet or, when ``over``, no more."""
        while self.window is None and not self.over:
            if self._windows is not None:
                self.window = next(self._windows, None)
                if self.window is not None:
                    self._next = self.window.iteration + self.window.complete
                else:
                    self._windows = None
                    self.over = self._last
            elif self._blocks:
                self._read(self._blocks.popleft())
            elif self._source is not None:
                batch = next(self._source, None)
                if batch is not None:
                    self._read(batch.block)
                else:
                    self._source, self.closed = None, True
            elif self.closed:
                self._windows, self._last = self.assembler.finish(), True
            else:
                break
        return self.window

    def _read(self, block: Block) -> None:
        """Go on with the windows of a block; behind a loss, with those that were begun before it and no more."""
        if not block.after_loss:
            self._windows = self.assembler.feed(block.tables)
            return
        self.process.unjudged = self._next
        self._blocks.clear()
        if self._source is not None:
            deque(self._source, maxlen=0)  # how the process ended is still to be known
            self._source, self.closed = None, True
        self._windows, self._last = self.assembler.finish(), True


class Team:
    """Processes that train one model together: each rank once, with an engine of their own.

    A program that is started again in the same folder, or that starts several trainings, has several teams.
    """

    def __init__(
        self,
        world: int,
        invariants: Sequence[Invariant],
        silenced: Sequence[Invariant],
        watching: Callable[[], Watching] = Watching,
    ) -> None:
        self.world = world
        self.lanes: dict[int, Lane] = {}
        self.engine = Engine(invariants)
        self.silenced = Engine(silenced) if silenced else None
        self.watching = watching()
        self.began = time.monotonic()
        self.windows = 0
        self.finished = False
        self._gone: set[int] = set()

    def rounds(self, growing: bool, tell: Callable[[], None] | None = None) -> list[Violation]:
        """Judge all iterations that every rank has told; return the violations that are new.

        Args:
            growing: Whether more may come.
            tell: Called now and then.
        """
        found: list[Violation] = []
        rounds = 0
        while not self.finished:
            rounds += 1
            if tell is not None and rounds % _TELL_EVERY == 0:
                tell()
            windows = [lane.window for lane in self.lanes.values() if lane.look() is not None]
            ready = [window for window in windows if window is not None]
            if not ready or (growing and self._waits(min(window.iteration for window in ready))):
                break
            for rank in sorted(set(range(self.world)) - set(self.lanes)):
                found += self._ended(rank)  # nobody waits for a rank that has no file
            now = min(window.iteration for window in ready)
            for rank in sorted(self.lanes):
                lane = self.lanes[rank]
                if lane.window is not None and lane.window.iteration == now:
                    found += self._see(lane.window)
                    lane.window = None
                elif lane.over:
                    found += self._ended(rank)
        if not growing and not self.finished:
            self.finished = True
            found += self.engine.finish()
            if self.silenced is not None:
                self.silenced.finish()
        return found

    def _waits(self, iteration: int) -> bool:
        """Whether a rank that has not told of an iteration is to be waited for."""
        for rank in range(self.world):
            lane = self.lanes.get(rank)
            if lane is None:
                if time.monotonic() - self.began < PATIENCE:
                    return True
            elif lane.window is None and not lane.over:
                ahead = max(other.process.iteration for other in self.lanes.values())
                if ahead - iteration < MOST_BEHIND:
                    return True
        return False

    def _see(self, window: Window) -> list[Violation]:
        self.windows += 1
        self.watching.see(window)
        if self.silenced is not None:
            self.silenced.see(window)
        return self.engine.see(window)

    def _ended(self, rank: int) -> list[Violation]:
        if rank in self._gone:
            return []
        self._gone.add(rank)
        if self.silenced is not None:
            self.silenced.ended(rank)
        return self.engine.ended(rank)


class Follower:
    """Everything that was recorded in a folder, on its way to the engines.

    Attributes:
        folder: The trace folder.
        teams: The teams in the order in which they began to train.
    """

    def __init__(
        self, folder: TraceFolder, invariants: Sequence[Invariant], watching: Callable[[], Watching] = Watching
    ) -> None:
        """Take the folder and the invariants in force; suppressed ones are judged apart, to be counted.

        What ``watching`` makes keeps the numbers of a team.
        """
        self.folder = folder
        self.teams: list[Team] = []
        self._invariants = [one for one in invariants if one.suppressed is None]
        self._silenced = [_freed(one) for one in invariants if one.suppressed is not None]
        self._watching = watching
        self._lanes: dict[str, Lane] = {}
        self._teamless: list[Lane] = []
        self._places: dict[tuple[int, int], int] = {}
        self._by_place: dict[tuple[int, int], Team] = {}

    def check(self, tell: Callable[[int], None] | None = None) -> None:
        """Judge what is in the folder, to its end.

        Args:
            tell: Called now and then with the number of windows that were judged.
        """

        def said() -> None:
            if tell is not None:
                tell(self.windows)

        for process in self.folder.identified():
            if process.role == "trainer":
                self._add(Lane(process, self.folder.pull(process)))
        self._assign(growing=False)
        for team in self.teams:
            team.rounds(growing=False, tell=said)
            said()
        for process in self.folder.identified():
            if process.role != "trainer":
                for _ in self.folder.pull(process):
                    pass
        self.folder.finish()

    def take(self, ended: bool = False, tell: Callable[[], None] | None = None) -> list[Violation]:
        """Judge what has come since the last time; return the violations that are new.

        Args:
            ended: Whether all processes are known to have ended.
            tell: Called now and then where much has come.
        """
        for batch in self.folder.poll():
            lane = self._lanes.get(batch.process.file)
            if lane is None and batch.process.role == "trainer":
                lane = self._add(Lane(batch.process, None))
            if lane is not None:
                lane.put(batch.block)
        for lane in self._lanes.values():
            if not lane.closed and (ended or self._has_ended(lane)):
                lane.closed = True
        if ended:
            self.folder.finish()
        self._assign(growing=not ended)
        found: list[Violation] = []
        for team in self.teams:
            found += team.rounds(growing=not ended, tell=tell)
        return found

    @property
    def windows(self) -> int:
        """How many windows were judged."""
        return sum(team.windows for team in self.teams)

    def all_ended(self) -> bool:
        """Whether there was a process that trained, and all that are known have ended."""
        return bool(self._lanes) and all(lane.closed for lane in self._lanes.values())

    def violations(self) -> list[Violation]:
        """All violations, group by group, the root of each first; groups are numbered through all teams."""
        return _numbered([team.engine.violations() for team in self.teams])

    def suppressed(self) -> int:
        """How many groups of violations nobody wants to hear of."""
        found = _numbered([team.silenced.violations() for team in self.teams if team.silenced is not None])
        return len({one.group for one in found})

    def failures(self) -> list[Failure]:
        """The relations that failed, and from where on they judge nothing."""
        return [one for team in self.teams for one in team.engine.failures]

    def judged(self) -> dict[str, int]:
        """In how many examples each invariant was judged."""
        counts: dict[str, int] = {}
        for team in self.teams:
            for ident, count in team.engine.judged.items():
                counts[ident] = counts.get(ident, 0) + count
        return counts

    def _has_ended(self, lane: Lane) -> bool:
        """Whether a process has said that it ended, or has been without a lock for a while."""
        if lane.process.end is not None:
            return True
        if self.folder.running(lane.process) is not False:
            lane.unlocked = None
            return False
        now = time.monotonic()
        lane.unlocked = now if lane.unlocked is None else lane.unlocked
        return now - lane.unlocked >= DEAD_AFTER

    def _add(self, lane: Lane) -> Lane:
        self._lanes[lane.process.file] = lane
        self._teamless.append(lane)
        return lane

    def _assign(self, growing: bool) -> None:
        """Give every process that has shown its first window a place in a team: the next free one of its rank."""
        for lane in list(self._teamless):
            if lane.look() is None:
                if lane.over or not growing:
                    self._teamless.remove(lane)
                continue
            self._teamless.remove(lane)
            run = lane.assembler.run
            place = (run.world, run.rank)
            nth = self._places[place] = self._places.get(place, -1) + 1
            team = self._by_place.get((run.world, nth))
            if team is None:
                team = self._by_place[run.world, nth] = Team(
                    run.world, self._invariants, self._silenced, self._watching
                )
                self.teams.append(team)
            team.lanes[run.rank] = lane


def _freed(invariant: Invariant) -> Invariant:
    import msgspec

    return msgspec.structs.replace(invariant, suppressed=None)


def _numbered(of_teams: list[list[Violation]]) -> list[Violation]:
    """Number the groups of all teams from 1, in order."""
    import msgspec

    numbered: list[Violation] = []
    last = 0
    for found in of_teams:
        numbers: dict[int, int] = {}
        for one in found:
            numbers.setdefault(one.group, last + len(numbers) + 1)
        last += len(numbers)
        numbered += [msgspec.structs.replace(one, group=numbers[one.group]) for one in found]
    return numbered


def run_has_ended(follower: Follower) -> bool:
    """Whether nobody writes to the folder any more: its launcher says so, or all its processes have ended."""
    from preflight.monitor.recording import any_arrived_lives, launcher_lives

    follower.folder.refresh()
    run = follower.folder.run
    lives = launcher_lives(run)
    if lives is False and run is not None and run.ended is None:
        # The launcher was killed, and what it started may go on without it.
        return follower.all_ended() or not any_arrived_lives(follower.folder.path)
    if lives is not None:
        return not lives
    if run is not None and run.ended is not None:
        return True
    return follower.all_ended()
