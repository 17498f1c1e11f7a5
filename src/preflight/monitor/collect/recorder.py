"""The recorder of one process: what has happened, in which call and which iteration.

In which iteration it is, iterations.py follows; rows that need numbers of a device wait in late.py.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from types import CodeType
from typing import Any, Protocol

from .early import Early, preparing
from .entry import Entry, Thread, Work
from .iterations import Iterations
from .late import Late, Rows
from .places import here
from .plain import capturing
from .settings import Settings
from .silence import Silence
from .trainers import Trainers

_TROUBLES_KEPT = 50
_QUIET_AFTER = 20
_process = os.getpid()
PATIENCE = 5.0
"""Seconds that the end of the program waits for numbers of a device."""


def _in_child() -> None:
    """Note that this process is another one: to ask the system for each row would take longer than to keep it."""
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Sink(Protocol):
    """What takes rows: a writer of a trace file, or a list in a test."""

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Take one row of a table."""

    def put_all(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take several rows of a table."""

    @property
    def copies(self) -> bool:
        """Whether rows may hold copies of batches in the place of their fingerprints (see ``copied.py``)."""

    @property
    def dropped(self) -> int:
        """Rows that could not be kept."""

    @property
    def spent_ns(self) -> int:
        """CPU time that was spent on rows beside the program."""

    def close(self, end: tuple[Any, ...] | None = None) -> bool:
        """Write what waits and the closing row, and close."""


class Recorder(Iterations):
    """Numbers events, and hands rows to the writer.

    Attributes:
        number: Gives the next number of an event of this process.
        backward_depth: How many backward passes are under way; forward passes inside one are recomputation.
    """

    def __init__(self, settings: Settings, open_sink: Callable[[Recorder], Sink]) -> None:
        super().__init__(settings)
        self.settings = settings
        self.number: Callable[[], int] = count(1).__next__
        self.backward_depth = 0
        self.spent = 0
        self.on_device: list[tuple[Any, Any]] = []
        self.role = "trainer"
        self.torch: Any = sys.modules.get("torch")
        self.at_end: list[Callable[[], None]] = []
        self.on_leave: Callable[[Entry], None] | None = None
        self.casts_cleared = 0  # how often an outermost autocast context has ended
        self.casts_used = False  # whether a forward pass began in the one that is open
        self.casts_idle = 0  # how many ended without any, outside of a pass and with gradients, since the last step
        self.calls = 0  # told so far, those of submodules apart
        self.passes = 0  # backward passes of the whole run
        self.waiting = 0  # backward passes since the last step of any optimizer
        # After how many passes the loader of the training was begun, where there is one.
        self.epoch_began: int | None = None
        self.scaled = False  # a loss was scaled and its gradients not yet unscaled
        self.called: tuple[CodeType, str | None] | None = None  # by whom a library was that called the model, and where
        self.ended = False
        self.halted = False  # nothing is recorded any more, and the closing row is still to come
        self.away = False  # the recorder pauses (see ``pauses.py``): it is told of steps alone
        self.at_step: Callable[[Any], None] | None = None  # told of each step of an optimizer, while that is wanted
        self.silence = Silence()
        # One question to the dispatcher before one for each device; where it cannot be asked, each device is asked.
        inner = getattr(self.torch, "_C", None)
        self._any_autocast: Callable[[], bool] = getattr(inner, "_is_any_autocast_enabled", lambda: True)
        self._inference: Callable[[], bool] = getattr(self.torch, "is_inference_mode_enabled", bool)
        self._gradients: Callable[[], bool] = getattr(self.torch, "is_grad_enabled", bool)
        self._needs = frozenset(settings.needs)
        self._open_sink = open_sink
        self._sink: Sink | None = None
        self._opening = threading.RLock()
        self._early = Early()
        self._troubles: dict[str, int] = {}
        self._late = Late(self)
        self._inherited: list[Any] = []
        self.trainers = Trainers(self)
        self._pid = _process
        self._forked = False

    # -- what may be recorded now

    def active(self) -> bool:
        """Whether an event of this moment is the program's own: not the compiler's tracing, not the recorder's work."""
        return not self.halted and not self.away and not self.ended and not self.thread.busy

    def wants(self, *kinds: str) -> bool:
        """Whether an invariant in force looks at one of these kinds of rows or calls; without a list, all are wanted."""
        return not self._needs or any(kind in self._needs for kind in kinds)

    def work(self, where: str) -> Work:
        """A context for work of the recorder: its cost is counted, and nothing it raises gets out."""
        return Work(self, where)

    def within(self, where: str, act: Callable[..., None], *given: Any) -> None:
        """Do a part of work that is under way; nothing it raises gets out, and the rest of the work goes on."""
        try:
            act(*given)
        except Exception as error:
            self.trouble(where, error)

    def trouble(self, where: str, error: BaseException) -> None:
        """Note that the recorder itself failed somewhere; the program goes on."""
        count = self._troubles.get(where, 0) + 1
        self._troubles[where] = count
        if count <= 3 and len(self._troubles) <= _TROUBLES_KEPT:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            at = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
            with contextlib.suppress(Exception):
                self.put(
                    "trouble", (self.number(), self.iteration, where, f"{type(error).__name__}: {error} ({at})"[:500])
                )

    def halt(self, where: str, why: str) -> None:
        """Record nothing more, and say why; the closing row is written at the end."""
        if not self.halted:
            self.halted = True
            self.put("trouble", (self.number(), self.iteration, where, why))

    def gave_up(self, where: str) -> bool:
        """Whether a part has failed so often that it is left alone."""
        return self._troubles.get(where, 0) >= _QUIET_AFTER

    # -- rows

    def head(self) -> tuple[int, int, int, int]:
        """What the row of an event begins with: its number, the time, the iteration, the count of steps."""
        return self.number(), time.monotonic_ns(), self.iteration, self.step

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Hand a row to the writer; the file is opened at the first one."""
        if self._pid != _process or (self.silence.on and self.silence.swallows(kind, row)):
            return
        (self._sink or self._opened()).put(kind, row)

    def put_all(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Hand several rows of one kind to the writer."""
        if not rows or self._pid != _process or self.silence.on:
            return
        (self._sink or self._opened()).put_all(kind, rows)

    def _opened(self) -> Sink | Early:
        """What takes rows where no file is open yet: it is opened now, unless the process is still being set up.

        It is opened, too, where more rows come meanwhile than are held: then a training is what that process does.
        """
        if preparing() and not self._early.full:
            return self._early
        return self._open()

    def _open(self) -> Sink:
        """Open the file, with what was held; of several threads that begin at once, one does."""
        with self._opening:
            if self._sink is not None:
                return self._sink
            sink = self._open_sink(self)
            for kind, row in self._early.taken():
                sink.put(kind, row)
            self._sink = sink
            return sink

    def becomes_worker(self) -> None:
        """Note that this process loads samples for another: what its module did while it was set up tells nothing."""
        self.role = "worker"
        self._early.taken()

    def may_copy(self) -> bool:
        """Whether a row may hold a copy of a batch, of which the writer takes the fingerprints."""
        return self._sink is not None and self._sink.copies

    def beside(self) -> int:
        """Nanoseconds of CPU time that the writer has spent beside the program."""
        return self._sink.spent_ns if self._sink is not None else 0

    def later(self, pending: Any, rows: Rows) -> None:
        """Hand over rows as soon as the numbers they need have come from the device."""
        if pending is not None:
            self._late.add(pending, rows)

    def nothing_waits(self) -> bool:
        """Whether no row waits for numbers of a device, so that one that waits for none can be handed over at once."""
        return not self._late.waiting

    def settle(self, patience: float = 0.0) -> None:
        """Hand over the rows whose numbers have come; the argument is that of ``Late.settle``."""
        self._late.settle(patience)

    # -- calls

    def enter(
        self,
        name: str,
        subject: str = "",
        args: dict[str, Any] | None = None,
        place: str | None = None,
        placed: bool = True,
    ) -> Entry:
        """Note that a call begins; where it stands in the person's code is looked up unless it is given or not wanted."""
        entry = Entry(self, name, subject, args, (place or here()) if placed else None)
        self.thread.stack.append(entry.number)
        return entry

    def leave(self, entry: Entry, result: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Note that a call has ended, and by which exception if one ended it."""
        ended = time.monotonic_ns()
        self.calls += 1
        stack = self.thread.stack
        if stack and stack[-1] == entry.number:
            stack.pop()
        else:
            self.unwind(entry.number)
        self.put(
            "call",
            (
                entry.number,
                self.number(),
                entry.began,
                ended - entry.began,
                self.iteration,
                self.step,
                entry.name,
                entry.object,
                entry.parent,
                entry.thread,
                entry.place,
                entry.context,
                entry.args,
                result,
                None if error is None else type(error).__name__,
            ),
        )
        if self.on_leave is not None:
            self.on_leave(entry)

    def unwind(self, number: int) -> None:
        """Take a call from the stack, and those within it that an exception ended without a word."""
        stack = self.stack()
        while stack and stack[-1] != number and number in stack:
            stack.pop()
        if stack and stack[-1] == number:
            stack.pop()

    def event(self, name: str, subject: str = "", args: dict[str, Any] | None = None, place: str | None = None) -> None:
        """Note a call that takes no time."""
        self.leave(self.enter(name, subject, args, place))

    def context(self) -> str:
        """What torch says about this moment: gradients recorded or not, inference, automatic precision."""
        torch = self.torch
        if torch is None:
            return ""
        mode = "inference" if self._inference() else "grad" if self._gradients() else "nograd"
        if not self._any_autocast():
            return mode
        words = [mode]
        words.extend(
            f"autocast.{device}={str(torch.get_autocast_dtype(device))[6:]}"
            for device in ("cuda", "cpu")
            if torch.is_autocast_enabled(device)
        )
        return sys.intern(",".join(words))

    def scalar(self, name: str, subject: str, value: float | int | None) -> None:
        """Note a number of the training."""
        self.put("scalar", (*self.head(), name, subject, value))

    # -- turns and the end

    def iteration_ended(self) -> None:
        """Hand over what there is of the iteration, and count what a device has spent for the recorder."""
        self._late.finish(self.iteration, self.step)
        self.settle()
        while self.on_device and not capturing(self.torch) and self.on_device[0][1].query():
            began, ended = self.on_device.pop(0)
            self.spent += int(began.elapsed_time(ended) * 1e6)

    def close(self, how: str, code: int | None, error: str | None) -> None:
        """Write the closing row; nothing is recorded after it.

        A forked child of which nothing was recorded gets no file for its end alone. One that ends while it is still
        being set up does where its module did something: it is no worker of a loader, and will not become one.
        """
        if self.ended or self._pid != os.getpid():
            return
        if self._forked and self._sink is None and not self._early.any:
            self.ended = True
            return
        with self.work("end"):
            for act in self.at_end:
                act()
            self.settle(PATIENCE)
        self.ended = True
        with contextlib.suppress(Exception):
            sink = self._sink or (self._open() if self._early.any else None)
            if sink is None:
                return
            now = time.monotonic_ns()
            row = (self.number(), now, self.iteration, self.step, how, code, error, self.spent, sink.dropped)
            sink.close(row)

    def after_fork(self) -> None:
        """Start anew in a forked child: no file yet, nothing of the parent's is written twice."""
        self._pid = _process
        self._forked = True
        self._sink = None
        self._opening = threading.RLock()
        self._early = Early()
        # What waited for a device is kept, though never asked: to give pinned memory back would end a child.
        self._inherited.append((self._late, self.on_device))
        self._late, self.on_device = Late(self), []
        self.trainers = Trainers(self)
        self.halted = False
        self.thread = Thread()
        self.number = count(1).__next__
        self.spent = 0
        self.ended = False
