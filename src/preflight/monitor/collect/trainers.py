"""Whether several threads train at once: then nothing more is recorded of the process.

A backward pass works without the interpreter's lock, and puts gradients in place while other threads run. One who reads
the gradient of a parameter in that moment may read where nothing is any more. The same holds while another thread throws
a gradient away: torch frees it before it forgets where it was, and may hand the interpreter on in between. Passes and
clearings wait for who is reading; a program that clears by hand is not seen doing so, and therefore gradients are read
only while each other thread that has trained rests. And what two threads do is told in one sequence, in which the steps
of one lie between the passes of the other: nothing that is said of a training holds there.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .columns import THREADS

if TYPE_CHECKING:
    from .recorder import Recorder

SEVERAL = "several threads train, maybe at the same time; nothing was recorded from here on"
_PATIENCE = 5.0  # seconds that a backward pass waits for a thread that may be reading gradients
_PAUSE = 0.0002
_WAITING = frozenset(
    "threading.wait threading._wait_for_tstate_lock threading.join threading.acquire queue.get queue.put "
    "concurrent._worker selectors.select socket.accept socket.readinto subprocess._try_wait "
    "multiprocessing.wait multiprocessing._recv multiprocessing._poll multiprocessing.get".split()
)
"""Functions of the standard library in which a thread waits for others."""
_STILL = 0.05
"""Seconds in which a thread that wants the interpreter's lock gets it and works, also where the cores are busy."""
_LOOKS = 4  # how often a thread is looked at for so long, at most


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
        self._acts = 0  # passes, steps and clearings
        self._acted: dict[int, int] = {}  # by thread: how many acts there were at its last one
        self._rests: dict[int, int] = {}  # of those that were seen at rest, that number
        self._looks = 0  # how often a thread was looked at whether it goes on
        self.at_work: set[int] = set()
        inner: Any = getattr(recorder.torch, "_C", None)
        self._task = getattr(inner, "_current_graph_task_id", lambda: -1)

    def goes_backward(self) -> bool:
        """A backward pass begins in this thread; whether it is the only one that trains. It waits for who may read."""
        return self.clears() and (self._task() != -1 or self._in_turn(False))

    def clears(self) -> bool:
        """Gradients are put in place or thrown away from now on; whether this thread is the only one that trains."""
        if self._task() != -1:
            return True  # one within another, maybe in a thread of torch's own
        own = self._recorder.thread.ident
        self._passes[own] = self._passes.get(own, 0) + 1
        if len(self.at_work) > 1:
            self._wait(own)
        return self._acts_alone(own)

    def ended(self) -> None:
        """The pass or the clearing has ended."""
        own = self._recorder.thread.ident
        if self._task() == -1 and own in self._passes:
            self._passes[own] -= 1
            if not self._passes[own]:
                del self._passes[own]

    def steps(self) -> bool:
        """An optimizer steps in this thread; whether it is the only one that trains."""
        return self._task() != -1 or (self._acts_alone(self._recorder.thread.ident) and self._in_turn(True))

    def safe(self) -> bool:
        """Whether no other thread is going backward or clearing, nor may be about to clear: so gradients may be read."""
        passes, mine = self._passes, self._recorder.thread
        if passes and not (len(passes) == 1 and mine.ident in passes):
            return self._task() != -1
        return len(self._acted) < 2 or self._others_rest(mine.ident) or self._task() != -1

    def alone(self) -> bool:
        """The same for a thread that trains; recording ends where another one is at it."""
        if self.safe():
            return True
        self._recorder.halt(THREADS, SEVERAL)
        return False

    def _acts_alone(self, own: int) -> bool:
        """Whether this thread is the only one that trains, as it does now."""
        self._acts += 1
        self._acted[own] = self._acts
        return self.alone()

    def _others_rest(self, own: int) -> bool:
        """Whether each other thread that has trained since it was last seen at rest has ended, or waits for something."""
        asked = {one: act for one, act in [*self._acted.items()] if one != own and self._rests.get(one) != act}
        if not asked:
            return True
        functions = _functions(asked)
        moving = {one for one, function in functions.items() if function not in _WAITING}
        if moving:
            self._looks += 1
            if self._looks > _LOOKS or not _asleep(moving):
                return False
        for one in asked.keys() - functions.keys():
            self._acted.pop(one, None)
        self._rests.update(asked)
        return True

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


def _functions(threads: Iterable[int]) -> dict[int, str]:
    """The innermost function that each thread that has not ended is in, by package and name."""
    frames = sys._current_frames()
    found = {}
    for one in threads:
        frame = frames.get(one)
        if frame is not None:
            found[one] = f"{str(frame.f_globals.get('__name__')).partition('.')[0]}.{frame.f_code.co_name}"
    return found


def _asleep(threads: set[int]) -> bool:
    """Whether threads sleep and use no processor for a while, as far as the operating system tells; they may do so now.

    A thread that works and waits for the interpreter's lock is seen at the same few instructions again and again, so
    that its frames do not tell.
    """
    numbers = [one.native_id for one in threading.enumerate() if one.ident in threads]
    if len(numbers) < len(threads):
        return False
    used = []
    for pause in (0.0, _STILL):
        time.sleep(pause)
        told = []
        for number in numbers:
            try:
                with open(f"/proc/self/task/{number}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                with open(f"/proc/self/task/{number}/schedstat") as file:
                    told.append((fields[0], file.read()))
            except (OSError, IndexError):
                return False
        used.append(told)
    return used[0] == used[1] and all(state == "S" for state, _ in used[1])
