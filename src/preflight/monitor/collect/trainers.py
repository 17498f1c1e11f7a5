"""Whether several threads train at once: then nothing more is recorded of the process.

A backward pass works without the interpreter's lock, and puts gradients in place while other threads run. One who reads
the gradient of a parameter in that moment may read where nothing is any more. And what two threads do is told in one
sequence, in which the steps of one lie between the passes of the other: nothing that is said of a training holds there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .columns import THREADS

if TYPE_CHECKING:
    from .recorder import Recorder

SEVERAL = "several threads train at the same time; nothing was recorded from here on"
_PATIENCE = 5.0  # seconds that a backward pass waits for a thread that may be reading gradients
_PAUSE = 0.0002


class Trainers:
    """Follows which threads go backward and which step.

    Attributes:
        at_work: The threads in which the recorder is doing something.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._passes: dict[int, int] = {}  # by thread: backward passes that are under way
        self._turns = 0  # backward passes and steps of all threads
        self._used = 0  # the turn at which a thread stepped with what others had made
        self.at_work: set[int] = set()
        inner: Any = getattr(recorder.torch, "_C", None)
        self._task = getattr(inner, "_current_graph_task_id", lambda: -1)

    def goes_backward(self) -> bool:
        """A backward pass begins in this thread; whether it is the only one that trains. It waits for who may read."""
        if self._task() != -1:
            return True  # one within another, maybe in a thread of torch's own
        own = self._recorder.thread.ident
        self._passes[own] = self._passes.get(own, 0) + 1
        if len(self.at_work) > 1:
            self._wait(own)
        return self.alone() and self._in_turn(False)

    def went_backward(self) -> None:
        """The pass has ended."""
        own = self._recorder.thread.ident
        if self._task() == -1 and own in self._passes:
            self._passes[own] -= 1
            if not self._passes[own]:
                del self._passes[own]

    def steps(self) -> bool:
        """An optimizer steps in this thread; whether it is the only one that trains."""
        return self._task() != -1 or (self.alone() and self._in_turn(True))

    def safe(self) -> bool:
        """Whether no other thread is going backward, so that gradients may be read."""
        passes = self._passes
        return not passes or (len(passes) == 1 and self._recorder.thread.ident in passes) or self._task() != -1

    def alone(self) -> bool:
        """The same for a thread that trains; recording ends where another one is going backward."""
        if not self._passes or self.safe():
            return True
        self._recorder.halt(THREADS, SEVERAL)
        return False

    def _in_turn(self, step: bool) -> bool:
        """Whether no other thread went backward or stepped since this one went backward, without a step of it since."""
        mine = self._recorder.thread
        others = self._turns - mine.turns
        waiting = mine.waits_since > self._used
        self._turns += 1
        mine.turns += 1
        if waiting and others != mine.others:
            self._recorder.halt(THREADS, SEVERAL)
            return False
        if not step:
            mine.others, mine.waits_since = others, self._turns
            return True
        if not waiting:
            self._used = self._turns  # it steps with what another thread has made, which has gone to rest
        mine.waits_since = 0
        return True

    def _wait(self, own: int) -> None:
        """Wait until no other thread is at what may be reading gradients; who begins now sees that this pass goes on."""
        self.at_work.discard(own)
        until = time.monotonic() + _PATIENCE
        while self.at_work and time.monotonic() < until:
            time.sleep(_PAUSE)
        self.at_work.add(own)
