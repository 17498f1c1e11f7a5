"""Pauses of the recorder, in programs of which even the least that it can tell costs more than the budget allows.

Where steps take less than a millisecond, being there is dear: each hook, each watched call, each row.
Then whole iterations are told now and then, and between them the recorder takes itself off: hooks on modules and
functions are set aside, what stays is one look at a flag, and the steps of optimizers are counted by the hook that is
there for them. How long a pause is follows from what a stretch of recorded iterations was measured to cost, by the
process's CPU time beside that of iterations in pauses: so hooks, watched calls and the writer's thread count, which no
clock around the recorder's own work sees.
A stretch begins with an iteration that is followed and not told, so that what is remembered from one iteration to the
next is right again; it ends with one, in which the recorder waits for a step, where nothing is under way.
What was passed over is told (``paused``), with the iterations and steps from which to which: a reader must not take what
comes after for what came next.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .aside import compiled
from .columns import GAP, PAUSED, TOLD
from .plain import capturing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorder import Recorder

_STRETCH = TOLD + 2  # with the iteration before them, and the one after in which the recorder waits for a step
_SHORTEST, _LONGEST = 8, 4096  # steps of a pause
_ENDURES = 10.0  # seconds after which the next step ends a pause: steps may have become longer than its length rests on
_OTHERS = 64  # steps of other optimizers in a row after which the one that is waited for is taken to step no more
_FORGETS = 0.9  # of what was measured, what is kept with each stretch
_FEW = 4  # stretches up to which what they take beside pauses says little
_UNSEEN = 1.25  # how many times what is measured within the recorder's work it costs then
_AT_FIRST, _LEAST = 0.25, 0.05  # the share of a stretch that is counted as its cost at least, at first and later
_SHIFT, _WIDTH = 7, 16  # by which pauses differ in length, so that they do not always end at the same place of an epoch
_PATIENCE = 1.0  # seconds that is waited for numbers of a device before a pause
clock = time.process_time
elapsed = time.monotonic


class Setting(Protocol):
    """What is set aside in a pause, and brought back."""

    def set_aside(self) -> None:
        """Take hooks and watching functions away."""

    def bring_back(self) -> None:
        """Put them in place again."""


class Costs(NamedTuple):
    """What pausing rests on, in seconds: an iteration told without detail, and what detail in one adds."""

    light: float
    detail: float


class Pauses:
    """Decides when the recorder pauses and when it tells again.

    Attributes:
        on: Whether the recorder pauses now and then.
        clears: What is to be done before a pause.
        resumes: What is to be done after one.
        forbids: What says whether no pause may begin.
    """

    def __init__(self, recorder: Recorder, setting: Setting) -> None:
        self.recorder = recorder
        self.on = False
        self.clears: list[Callable[[], None]] = []
        self.resumes: list[Callable[[], None]] = []
        self.forbids: list[Callable[[], object]] = []
        self.share = recorder.settings.budget / 100
        self._setting = setting
        self._kept = 0, 0  # how often norms were taken, and detail, before all this
        self._awaited: weakref.ref[Any] | None = None  # the optimizer whose steps are counted
        self._count = self._others = self._length = 0
        self._told = self._followed = 0  # iterations of this stretch
        self._since = 0, 0  # the last iteration that was told, and the steps until its end
        self._at = 0.0  # the process's CPU time when this stretch, or this pause, began
        self._until = 0.0  # when this pause has taken so long that the next step ends it
        self._own = 0  # nanoseconds of the recorder's own work then
        self._first_step = 0
        self._pace = _Mean()  # seconds and steps of pauses
        self._stretches = _Mean()  # the same of stretches, with the recorder
        self._measured = _Mean()  # seconds of the recorder's own work in them, and how many there were
        self._costs = Costs(0.0, 0.0)
        self._undetailed = 0  # stretches since one with detail
        self._ceasing = False  # telling has become cheap: no more pauses
        self._said = 0  # of how many iterations some are told, as it was last said

    # -- beginning and ending

    def may(self) -> bool:
        """Whether a pause may begin: one process alone, that nothing was compiled in and nobody asks anything of."""
        recorder = self.recorder
        torch = recorder.torch
        dist = torch.distributed
        if recorder.role != "trainer" or recorder.halted or recorder.primary is None or recorder.settings.control:
            return False
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            return False
        return not compiled() and not capturing(torch) and not any(forbid() for forbid in self.forbids)

    def begin(self, work: float, costs: Costs) -> bool:
        """Pause from now on, where it may.

        Args:
            work: Seconds of an iteration without the recorder.
            costs: What recording one costs.

        Returns:
            Whether it does.
        """
        recorder = self.recorder
        if self.on or not recorder.stepped or not self.may():
            return False
        self.on = True
        self._costs = costs
        self._kept = recorder.norms_every, recorder.detail_every
        self._told, self._followed = TOLD, 0
        self._since = recorder.iteration, recorder.step
        self._say(int(_UNSEEN * costs.light * _STRETCH / self.share / work) + _STRETCH, costs.light / work)
        return True

    def turn(self) -> None:
        """Between two iterations: what is told of the next one."""
        if not self.on:
            return
        if not self.recorder.silence.on:
            self._told += 1
            if self._told >= TOLD:
                self._leave()
        elif self.recorder.at_step is None:
            self._followed += 1
            if self._followed > 1:  # what was left of an iteration when the pause ended, and a whole one
                self._tell()

    def end(self) -> None:
        """The program ends: what is told of its end comes after a gap, where nothing is told just now."""
        recorder = self.recorder
        if recorder.away:
            self._advance()
        if recorder.silence.on:
            self._tell_gap(recorder.iteration)
            recorder.silence.on = True  # what there is of this iteration was not followed from its beginning

    # -- stretches

    def _leave(self) -> None:
        """Tell nothing of the next iteration, and pause in it; or go on as before, where that may not be."""
        recorder = self.recorder
        if not self.may():
            self._cease()
            return
        recorder.settle(_PATIENCE)
        recorder.norms_every = recorder.detail_every = 0
        recorder.detail_at = -1
        recorder.silence.on = True
        recorder.at_step = self._stepped
        self._since = recorder.iteration, recorder.step

    def _stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped, in a pause or before one."""
        if self.recorder.away:
            own = self._awaited() is optimizer if self._awaited is not None else False
            self._count += own
            self._others = 0 if own else self._others + 1
            if self._count >= self._length or self._others >= _OTHERS or elapsed() >= self._until:
                with self.recorder.work("pause"):
                    self._wake()
        elif not any(forbid() for forbid in self.forbids):
            self._awaited = weakref.ref(optimizer)
            with self.recorder.work("pause"):
                self._fall_silent()

    def _fall_silent(self) -> None:
        recorder = self.recorder
        for clear in self.clears:
            clear()
        self._take_stretch()
        if self._ceasing:
            return
        self._count = self._others = 0
        self._setting.set_aside()
        recorder.away = True
        self._at, self._until = clock(), elapsed() + _ENDURES

    def _wake(self) -> None:
        recorder = self.recorder
        now = clock()
        self._pace.add(now - self._at, self._count)
        self._at, self._own = now, self._spent()
        self._advance()
        recorder.at_step = None
        recorder.away = False
        self._setting.bring_back()
        for resume in self.resumes:
            resume()
        self._followed = 0
        self._first_step = recorder.step

    def _advance(self) -> None:
        """Count the steps of a pause."""
        self.recorder.pass_over(self._count)
        self._count = 0

    def _tell(self) -> None:
        """Tell whole iterations from the next one on."""
        recorder = self.recorder
        self._told = 0
        self._tell_gap(recorder.iteration + 1)
        recorder.norms_every = max(recorder.settings.norms_every, 1)
        self._undetailed += 1
        # What detail costs is to be as much as all the rest, at most; the iteration before it takes fingerprints, too.
        others = self._undetailed * self._costs.light * _STRETCH
        if recorder.settings.detail_every > 0 and others >= self._costs.detail:
            recorder.detail_at = recorder.iteration + TOLD - 1
            self._undetailed = 0
        if self._ceasing:
            self._cease()

    def _tell_gap(self, iteration: int) -> None:
        recorder = self.recorder
        held = recorder.silence.broken(iteration)
        row = (recorder.number(), iteration, recorder.step, *self._since, "budget")
        recorder.put(GAP, row)
        for kind, one in held:
            recorder.put(kind, one)

    # -- costs

    def _take_stretch(self) -> None:
        """A stretch is over: how long the pause after it is; or no pause, where telling has become cheap."""
        recorder = self.recorder
        steps = recorder.step - self._first_step
        own = (self._spent() - self._own) / 1e9
        if self._followed:  # it began after a pause
            self._stretches.add(clock() - self._at, steps)
            self._measured.add(own, 1)
        pace = self._pace.each()
        if pace is None:  # there was none yet: a short one tells what an iteration takes by itself
            self._length = _SHORTEST
            return
        cost = self._cost(pace)
        if cost / TOLD <= self.share * pace:
            self._ceasing, self._followed = True, 1
            recorder.at_step = None
            return
        length = int(cost / self.share / pace) + self._measured.added * _SHIFT % _WIDTH
        self._length = min(max(length, _SHORTEST), _LONGEST)
        self._say(self._length + _STRETCH, cost / TOLD / pace)

    def _cost(self, pace: float) -> float:
        """Seconds that a stretch costs more than the same iterations without the recorder."""
        stretches = max(self._measured.weight, 1e-9)
        took = self._stretches.total / stretches
        beyond = max(took - self._stretches.weight / stretches * pace, _LEAST * took)
        if self._measured.added < _FEW:
            # Iterations differ, and few of them say little; but the clock around the recorder's work runs on while others work.
            return min(_UNSEEN * self._measured.total / stretches, max(beyond, _AT_FIRST * took))
        return beyond

    def _cease(self) -> None:
        """Record as before."""
        recorder = self.recorder
        self.on = self._ceasing = False
        recorder.at_step = None
        recorder.detail_at = -1
        recorder.norms_every, recorder.detail_every = self._kept
        self._said = 1
        self._put(1, self._measured.total / max(self._measured.weight, 1))

    def _say(self, every: int, share: float) -> None:
        """Tell of how many iterations some are told, where that is much changed."""
        if not self._said / 2 < every < self._said * 2:
            self._said = every
            self._put(every, share)

    def _put(self, every: int, share: float) -> None:
        recorder = self.recorder
        recorder.put("thinned", (recorder.number(), recorder.iteration, PAUSED, every, "budget", round(share, 4)))

    def _spent(self) -> int:
        return self.recorder.spent + self.recorder.beside()


class _Mean:
    """A mean over what was added, in which the last counts most."""

    __slots__ = ("added", "total", "weight")

    def __init__(self) -> None:
        self.added = 0
        self.total = self.weight = 0.0

    def add(self, seconds: float, times: float) -> None:
        """Add what took so long and happened so often."""
        self.total = self.total * _FORGETS + seconds
        self.weight = self.weight * _FORGETS + times
        self.added += 1

    def each(self) -> float | None:
        """Seconds of one; None where nothing is known."""
        return self.total / self.weight if self.weight > 0 else None
