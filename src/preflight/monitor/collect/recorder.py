"""The recorder of one process: where it is in the training loop, and what has happened.

An iteration ends where the next one begins: at the next batch of a loader after something was trained in this one;
without a loader, at the next forward pass or clearing of gradients after the first optimizer's step.
Whether an iteration is recorded in detail depends on its number alone, so that all ranks choose the same ones.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .entry import Entry, Thread, Work
from .places import here
from .settings import Settings

_TROUBLES_KEPT = 50
_QUIET_AFTER = 20
_NEVER_STEPPED = 4
_LOOK_AGAIN = 1e-3  # seconds
PATIENCE = 5.0
"""Seconds that the end of the program waits for numbers of a device."""


Rows = Callable[[Any], Iterable[tuple[str, tuple[Any, ...]]]]


class Sink(Protocol):
    """What takes rows: a writer of a trace file, or a list in a test."""

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Take one row of a table."""

    @property
    def dropped(self) -> int:
        """Rows that could not be kept."""

    def close(self, end: tuple[Any, ...] | None = None) -> bool:
        """Write what waits and the closing row, and close."""


class Recorder:
    """Counts steps and iterations, numbers events, and hands rows to the writer.

    Attributes:
        iteration: The number of the pass through the training loop, from 0.
        step: How many steps of the first optimizer have ended.
        detail: Whether this iteration is recorded in detail.
        norms: Whether norms of parameters and gradients are taken in this iteration.
        exact_after: Whether fingerprints are taken after its step: in detail, or because the next one is.
        backward_depth: How many backward passes are under way; forward passes inside one are recomputation.
    """

    def __init__(self, settings: Settings, open_sink: Callable[[Recorder], Sink]) -> None:
        self.settings = settings
        self.iteration = 0
        self.step = 0
        self.detail_every = settings.detail_every
        self.norms_every = settings.norms_every
        self.detail_until = settings.detail_first
        self.detail = settings.detail_first > 0
        self.norms = True
        self.exact_after = self.detail
        self.backward_depth = 0
        self.spent = 0
        self.on_device: list[tuple[Any, Any]] = []
        self.role = "trainer"
        self.torch: Any = sys.modules.get("torch")
        self.at_boundary: list[Callable[[], None]] = []
        # Between two iterations: the old one is told, the new one not begun.
        self.at_turn: list[Callable[[], None]] = []
        self.at_end: list[Callable[[], None]] = []
        self.on_leave: Callable[[Entry], None] | None = None
        self.begun_by = ""  # what began this iteration: fetch, forward, zero_grad
        self.primary: int | None = None
        self.trained = False  # a backward pass or a step has happened in this iteration
        self.stepped = False  # the first optimizer has stepped in this iteration
        self.evaluated = False  # a model was evaluated since the last step of the first optimizer
        self.training = True  # the mode of the model that was last called with gradients
        self.fetched = False  # a loader gave a batch in this iteration
        self.casts_cleared = 0  # how often an outermost autocast context has ended
        self.casts_used = False  # whether a forward pass began in the one that is open
        self.casts_idle = 0  # how many ended without any, outside of a pass and with gradients, since the last step
        self.backwards = 0
        self.most_backwards = 0
        self.passes = 0  # backward passes of the whole run
        self.waiting = 0  # backward passes since the last step of any optimizer
        self.scaled = False  # a loss was scaled and its gradients not yet unscaled
        self.ended = False
        # One question to the dispatcher before one for each device; where it cannot be asked, each device is asked.
        inner = getattr(self.torch, "_C", None)
        self._any_autocast: Callable[[], bool] = getattr(inner, "_is_any_autocast_enabled", lambda: True)
        self._needs = frozenset(settings.needs)
        self._open_sink = open_sink
        self._sink: Sink | None = None
        self._counter = 0
        self.thread = Thread()
        self._troubles: dict[str, int] = {}
        self._later: list[tuple[Any, Rows]] = []
        self._finished: list[tuple[int, int]] = []
        self._pid = os.getpid()

    # -- what may be recorded now

    def active(self) -> bool:
        """Whether an event of this moment is the program's own: not the compiler's tracing, not the recorder's work."""
        return not self.ended and not self.thread.busy

    def wants(self, *kinds: str) -> bool:
        """Whether an invariant in force looks at one of these kinds of rows or calls; without a list, all are wanted."""
        return not self._needs or any(kind in self._needs for kind in kinds)

    def work(self, where: str) -> Work:
        """A context for work of the recorder: its cost is counted, and nothing it raises gets out."""
        return Work(self, where)

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

    def gave_up(self, where: str) -> bool:
        """Whether a part has failed so often that it is left alone."""
        return self._troubles.get(where, 0) >= _QUIET_AFTER

    # -- rows

    def number(self) -> int:
        """The next number of an event of this process."""
        self._counter += 1
        return self._counter

    def head(self) -> tuple[int, int, int, int]:
        """What the row of an event begins with: its number, the time, the iteration, the count of steps."""
        return self.number(), time.monotonic_ns(), self.iteration, self.step

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        """Hand a row to the writer; the file is opened at the first one."""
        if self._pid != os.getpid():
            return
        if self._sink is None:
            self._sink = self._open_sink(self)
        self._sink.put(kind, row)

    def put_all(self, kind: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Hand several rows of one kind to the writer."""
        for row in rows:
            self.put(kind, row)

    def later(self, pending: Any, rows: Rows) -> None:
        """Hand over rows as soon as the numbers they need have come from the device."""
        if pending is None:
            return
        if not self._later and pending.ready():
            self._give(rows, pending.values())
        else:
            self._later.append((pending, rows))

    def _give(self, rows: Rows, values: Any) -> None:
        """Hand over the rows that are made of some values, none where these did not come."""
        for kind, row in rows(values) if values is not None else ():
            self.put(kind, row)

    def settle(self, patience: float = 0.0) -> None:
        """Hand over the rows whose numbers have come, in the order in which they were asked for.

        Args:
            patience: Seconds to wait for those that have not; what has not come then is named and given up.
        """
        until = time.monotonic() + patience
        while self._later:
            pending, rows = self._later[0]
            while not pending.ready() and time.monotonic() < until:
                time.sleep(_LOOK_AGAIN)
            if not pending.ready():
                break
            self._later.pop(0)
            self._give(rows, pending.values())
        if self._later and patience:
            # A device that hangs, behind a collective operation that nobody joins, must not keep the program from ending.
            late = TimeoutError(f"{len(self._later)} rows lack numbers that a device did not give in {patience:g} s")
            self._later.clear()
            self._finished.clear()
            self.trouble("end", late)
        if not self._later:
            for iteration, step in self._finished:
                self.put("iteration", (self.number(), time.monotonic_ns(), iteration, step))
            self._finished.clear()

    # -- calls

    def stack(self) -> list[int]:
        """The numbers of the recorded calls that this thread is in."""
        return self.thread.stack

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
        self.stack().append(entry.number)
        return entry

    def leave(self, entry: Entry, result: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Note that a call has ended, and by which exception if one ended it."""
        ended = time.monotonic_ns()
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
        mode = "inference" if torch.is_inference_mode_enabled() else "grad" if torch.is_grad_enabled() else "nograd"
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

    # -- the training loop

    def begins(self, what: str) -> None:
        """A fetch of a training batch, a forward pass that trains, or a clearing of gradients begins here."""
        if what != "fetch" and self.stack():
            return  # within a call, such as a step that calls a closure
        if not self.trained:
            if what == "fetch":
                self.fetched = True
            return
        if what == "fetch":
            new = True
        elif self.fetched:
            new = False
        else:
            # No loader: after the step of the first optimizer, or where the step that always came did not come.
            late = what == "forward" and 0 < self.most_backwards <= self.backwards
            # Nothing has ever stepped, and gradients are cleared again and again.
            never = what == "zero_grad" and self.primary is None and self.backwards >= _NEVER_STEPPED
            new = self.stepped or late or never
        if new:
            self.begun_by = what
            self.next_iteration()
            self.fetched = what == "fetch"

    def next_iteration(self) -> None:
        """End this iteration and begin the next."""
        if self.stepped:
            self.most_backwards = max(self.most_backwards, self.backwards)
        for act in self.at_boundary:
            act()
        self._finished.append((self.iteration, self.step))
        self.settle()
        while self.on_device and self.on_device[0][1].query():
            began, ended = self.on_device.pop(0)
            self.spent += int(began.elapsed_time(ended) * 1e6)
        for act in self.at_turn:
            act()
        self.trained = self.stepped = False
        self.backwards = 0
        self.iteration += 1
        number = self.iteration
        self.detail = self._in_detail(number)
        self.norms = self.detail or (self.norms_every > 0 and number % self.norms_every == 0)
        # Fingerprints after this step are what those before the next one are compared with.
        self.exact_after = self.detail or self._in_detail(number + 1)

    def _in_detail(self, number: int) -> bool:
        """Whether an iteration of this number is recorded in detail."""
        return number < self.detail_until or (self.detail_every > 0 and number % self.detail_every == 0)

    def close(self, how: str, code: int | None, error: str | None) -> None:
        """Write the closing row; nothing is recorded after it."""
        if self.ended or self._pid != os.getpid():
            return
        with self.work("end"):
            for act in self.at_end:
                act()
            self.settle(PATIENCE)
        self.ended = True
        if self._sink is None:
            return
        with contextlib.suppress(Exception):
            now = time.monotonic_ns()
            row = (self.number(), now, self.iteration, self.step, how, code, error, self.spent, self._sink.dropped)
            self._sink.close(row)

    def after_fork(self) -> None:
        """Start anew in a forked child: no file yet, nothing of the parent's is written twice."""
        self._pid = os.getpid()
        self._sink = None
        self._later = []
        self._finished = []
        self.thread = Thread()
        self._counter = 0
        self.spent = 0
        self.ended = False
