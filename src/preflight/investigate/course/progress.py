"""What went on afterwards: steps behind an event, and whether it was recovered from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from functools import cached_property
from itertools import accumulate, chain
from math import isfinite

from preflight.investigate.case.case import Case, Event, by_file
from preflight.investigate.case.own_module import OWN_MODULE
from preflight.investigate.cause.exceptions import REPEATED, in_thread
from preflight.investigate.course.bad_ends import BadEnds
from preflight.investigate.course.buffered import at_top, fits, waited
from preflight.investigate.course.cells import of_a_cell
from preflight.investigate.course.evaluations import never_finite
from preflight.investigate.course.last_lines import LastLines, caught_by_the_program, is_end, stays_in_a_library
from preflight.investigate.course.next_start import DONE, begun_anew
from preflight.investigate.course.step_order import StepOrder, numbers_of
from preflight.investigate.course.trials import of_a_passed_trial
from preflight.vocabulary.log import Raised

# A rank that fails lets the others finish what is under way, and a line for every step need not be printed at once.
STEPS_BEHIND = 3
STEPS_OF_ITS_OWN = 2
_REDRAWN = 2
"""So many bars at most are drawn once more as a program ends."""
# What a scheduler ends goes on until it is killed, as a rule within half a minute of its word.
STEPS_BEHIND_AN_END = 20
# What an agent of torchrun says when it gives up.
_TABLES = ("end.child-failed", "elastic.summary")
_OF_AN_AGENT = "torch.distributed.elastic."
# So many lines at the head of a file are of what sets a job up.
_SET_UP = 50
_OF_PREFERENCES = "numerical.preference-nan"
"""Beside likelihoods that are no numbers a loss may be nought, which is one."""
_OF_SKIPPED = "numerical.nan-gradient-skipped"
"""Of a step that is left out the loss is told all the same: the next one shows whether it was the only one."""
_SELDOM = 10
"""Where one step of so many is left out at most, that is nothing, the last one included."""
_OF_OPTIONS = "usercode.unrecognized-arguments"
"""What ends a program as it reads its options: what stands behind it is of another start."""
_LONG = 200
"""So many lines behind that are no last words of a script."""
_SAVED = "progress.checkpoint-saved"
_BEGINS_AN_EPOCH = re.compile(r"^\W{0,20}(?i:epoch)\W{0,4}\d{1,6} ?(?:/|of) ?\d{1,6}\W{0,20}$")
"""The last word of a program that has begun to train."""
_OF_A_START = ("environment.missing-module", OWN_MODULE, "environment.import-name", "usercode.syntax")
_OF_CONDA = "environment.conda"
"""What conda says in a shell that it was not set up in; a program that needs no environment of it runs as well."""
_GRACE = 60.0


class Progress:
    """The steps of a run by file and by time."""

    def __init__(self, case: Case) -> None:
        """Put the steps into order."""
        self.case = case
        self._tables = _tables(case)
        self._of_rank: dict[tuple[int, int | None], StepOrder] = {}
        self._orders_of: dict[tuple[int, int | None], tuple[StepOrder, ...]] = {}
        self._ranks_in: dict[int, set[int | None]] = {}
        timed: list[tuple[float, int]] = []
        self._nodes: set[str | None] = set()
        self._by_epochs: set[int] = set()
        for one, number in chain.from_iterable(
            zip(steps, numbers_of(steps), strict=True) for steps in case.steps_in.values()
        ):
            if number is None:
                continue
            rank, node = case.people.placed(one.who, one.file)
            if rank is not None and one.line > self._tables.get(one.file, one.line):
                continue
            for order in self._orders(one.file, rank):
                order.add(one.line, number)
            if one.step is None or number != one.step:
                self._by_epochs.add(one.file)
                continue
            time = case.corrected(one.time, node)
            if time is not None:
                timed.append((time, one.step))
                self._nodes.add(node)
        timed.sort()
        self._times = [time for time, _ in timed]
        # The furthest step at each of these times, and every step that was told: what lies beyond the furthest came after it.
        self._furthest = list(accumulate((number for _, number in timed), max))
        self._numbers = sorted({number for _, number in timed})
        self._last = LastLines(case)
        self._skipped: Counter[int] = Counter()
        for event in case.events:
            if event.id == _OF_SKIPPED:
                self._skipped[event.hit.file] = max(self._skipped[event.hit.file] + 1, event.hit.times_seen)
        told = by_file(case.events, lambda one: one.hit.file)
        self._ranks_of = {file: {one.rank for one in events} for file, events in told.items()}
        self._calm = not any(ending.code for ending in case.endings) and not any(
            event.role in ("cascade", "teardown", "confirmation") for event in case.events
        )
        self._done = any(is_end(event) for event in case.events)
        self._evaluated = never_finite(case)
        self._raised = {one.hit.place for one in case.raised if one.exception}
        self._raised_in = by_file(case.raised, lambda one: one.hit.file)
        # Hydra prints a traceback from its task on, without the top of the script, as one that the program caught would begin.
        self._in_hydra = {one.first.file for one in case.reading.unknown if REPEATED.search(one.first.text)}
        self._ends = BadEnds(case, {key: order.lines[-1] for key, order in self._of_rank.items()})

    def _orders(self, file: int, rank: int | None) -> tuple[StepOrder, ...]:
        """Return what puts the steps of a rank, and those of its whole file, into order."""
        found = self._orders_of.get((file, rank))
        if found is None:
            keys = dict.fromkeys(((file, rank), (file, None)))
            found = self._orders_of[file, rank] = tuple(self._of_rank.setdefault(key, StepOrder()) for key in keys)
            self._ranks_in.setdefault(file, set()).add(rank)
        return found

    def behind(self, event: Event) -> int:
        """Return how many steps beyond the one of an event were told after it, in its own file or by the clock.

        Of those of its own file no more are counted than outlive the word of a scheduler.
        """
        own = self._in_file(event)
        if own >= STEPS_OF_ITS_OWN or event.time is None or not self._comparable(event):
            return own
        at = bisect_right(self._times, event.time + event.error)
        first = self._furthest[at - 1] if at else event.step if event.step is not None else -1
        return max(own, len(self._numbers) - bisect_right(self._numbers, first))

    def _comparable(self, event: Event) -> bool:
        """Return whether the clock of an event can be held against those of the steps.

        What stands without a time at the end of a rank's file may have been said long after the time before it: the steps of
        other ranks show that it was outlived only where nobody else complains.
        """
        if event.hit.time_open and not self._calm:
            return False
        joined = event.node in self.case.clocks or self._nodes <= {event.node, None} or len(self.case.people.nodes) < 2
        # Where nobody else complains and nothing ended, the run went on, whatever the clocks.
        return joined or self._calm

    def _in_file(self, event: Event) -> int:
        file = event.hit.file
        ranks = self._ranks_in.get(file, set())
        key = (file, event.rank) if event.rank in ranks else (file, None)
        told = self._of_rank.get(key)
        if told is None:
            return 0
        if self._may_be_printed_first(event):
            return 0
        first = told.last_before(event.hit.line) if file in self._by_epochs else event.step
        first = first if first is not None else -1
        behind = told.beyond(event.hit.line, first, STEPS_BEHIND_AN_END)
        if behind:
            return behind
        # Another start counts from its beginning; bars draw the same step twice.
        anew = told.counted_anew(event.hit.line, first, STEPS_BEHIND_AN_END)
        if file in self._by_epochs:  # each fold and each seed counts its own; no bar draws its first epoch once more
            anew = max(anew, told.begun_again(event.hit.line, STEPS_BEHIND_AN_END))
        return anew if anew >= STEPS_BEHIND else 0

    def _may_be_printed_first(self, event: Event) -> bool:
        """Return whether nobody caught what an event tells of: what was printed before it may wait in a buffer, and come out behind it."""
        if event.place not in self._raised:
            return False
        last = self._last_raised(event)
        if last is not None and of_a_cell(last):  # what the cells behind it printed stands behind it, and nothing else
            return False
        alone = len(self.case.people.seen) < 2 and (self.case.people.world or 1) < 2
        if last is not None and alone and at_top(last):
            return waited(self.case, last)
        if event.hit.file not in self._by_epochs:
            return False
        if last is not None and last.frames and in_thread(last):  # it ended alone: the program goes on, or waits for it
            return not alone or waited(self.case, last)
        # One of several ranks that died leaves the others to go on for a while, however much they say.
        return last is None or (not caught_by_the_program(last) and (at_top(last) or fits(self.case, last)))

    def recovered(self, event: Event) -> bool:
        """Return whether the run went on after an event as if nothing had been."""
        if event.role in ("recovered", "benign", "progress"):
            return True
        if event.place in self._evaluated or (self._ends.has(event) and self._in_file(event) < STEPS_BEHIND_AN_END):
            return False
        if self._last.ended(event) and not self._never_again(event):
            return True
        if self._finite_again(event) or self._only_set_up(event):
            return True
        if self._of_a_start(event) or self._done_without(event) or self._printed_by_a_library(event):
            return True
        if self._printed_by_the_program(event) or self._loaded_in_part(event):
            return True
        raised = self._last_raised(event) if event.place in self._raised else None
        if of_a_passed_trial(event, raised, self._last):
            return True
        if event.place in self._raised and self._calm and begun_anew(self.case, event, raised):
            return True
        if event.category == "preemption" and event.role == "root":
            return self.behind(event) >= STEPS_BEHIND_AN_END and self._outlived(event)
        if not self._in_file(event):
            return self.behind(event) >= STEPS_BEHIND
        # A value that is no number stands in the line of a step itself: the next step shows whether it was mended.
        # What was raised of it does not: a bar draws the step once more that it ended in.
        one = event.category == "numerical" and event.place not in self._raised and event.id != _OF_SKIPPED
        return self.behind(event) >= (1 if one else STEPS_OF_ITS_OWN)

    def made_a_step_behind(self, event: Event) -> bool:
        """Return whether the writer of an event told a step beyond it, in the same file."""
        return event.rank in self._ranks_in.get(event.hit.file, set()) and self._in_file(event) > 0

    def _outlived(self, event: Event) -> bool:
        """Return whether steps were told longer after a scheduler's word than it leaves to what it ends; True without times.

        A time that lines far away tell is none.
        """
        if event.time is None or not self._times or event.error > _GRACE:
            return True
        signature = self.case.signatures.get(event.id)
        grace = signature.grace if signature is not None and signature.grace is not None else _GRACE
        return self._times[-1] > event.time + grace

    def _finite_again(self, event: Event) -> bool:
        """Return whether what was no number is one in the last step that the same file tells behind it."""
        if event.id == _OF_SKIPPED:
            return self._skipped_seldom(event)
        if event.category != "numerical" or "nan" not in event.id or event.id == _OF_PREFERENCES:
            return False
        if event.place in self._raised and self._in_file(event) < STEPS_OF_ITS_OWN:
            return False  # an exception ends a run: a bar draws once more what was finite before it
        steps = self.case.steps_in.get(event.hit.file, [])
        at = bisect_right(steps, event.hit.line, key=lambda one: one.line)
        behind = steps[at : at + _REDRAWN + 1]
        again = len(behind) <= _REDRAWN and all(one.step is not None and one.step == event.step for one in behind)
        if again and not (at and steps[at - 1].line == event.hit.line):
            return False
        values = steps[-1].values if at < len(steps) else {}
        last = [values[name] for name in ("loss", "grad_norm") if name in values]
        return bool(last) and all(isfinite(value) for value in last)

    def _skipped_seldom(self, event: Event) -> bool:
        """Return whether more than one step was told behind one that was left out, or very few of them were; not of a whole epoch."""
        steps = self.case.steps_in.get(event.hit.file, [])
        if len(steps) - bisect_right(steps, event.hit.line, key=lambda one: one.line) > 1:
            return True
        return "value" in event.hit.fields and self._skipped[event.hit.file] * _SELDOM <= len(steps)

    def _never_again(self, event: Event) -> bool:
        """Return whether a value that is no number is the last that a file tells of a step: that a run ends mends nothing."""
        if event.category != "numerical" or "nan" not in event.id or event.role != "root":
            return False
        steps = self.case.steps_in.get(event.hit.file)
        return event.id == _OF_PREFERENCES or not steps or steps[-1].line <= event.hit.line

    def _of_a_start(self, event: Event) -> bool:
        """Return whether a program did not come to its first step for what it imports or is told, and a later one in the file did."""
        if event.step is not None or event.hit.line > _SET_UP:
            return False
        if event.id == _OF_OPTIONS:
            return self.case.lines_behind(event.hit) >= _LONG and not self._last.failed(event)
        if event.id not in _OF_A_START:
            return False
        told = self._of_rank.get((event.hit.file, None))
        return told is not None and told.lines[-1] > event.hit.line

    def _only_set_up(self, event: Event) -> bool:
        """Return whether a shell's complaint at the head of its own file was outlived.

        The steps stand in another file, or the job was there to be ended from outside, and raised nothing until then.
        """
        if event.category != "environment" or event.raised is not None:
            return False
        if event.hit.line > _SET_UP or ("Error:" in event.hit.text and event.id != _OF_CONDA):
            return False
        if self._last.stopped(event) or (event.id == _OF_CONDA and self._went_on(event)):
            return True
        if event.guessed and self.case.lines_behind(event.hit) >= _LONG and not self._last.failed_otherwise(event):
            return True
        if event.time is not None or event.hit.file in self._ranks_in:
            return False
        told = len(self.case.steps) - len(self.case.steps_in.get(event.hit.file, ()))
        return self._calm and told >= STEPS_BEHIND

    def _went_on(self, event: Event) -> bool:
        """Return whether a file goes on for long behind a shell's complaint, and nothing else failed in it."""
        return self.case.lines_behind(event.hit) >= _SET_UP and not self._last.failed_otherwise(event)

    def _ranks_told(self, file: int) -> set[int]:
        """Return the ranks that a file tells of, by its steps and its events."""
        told = self._ranks_in.get(file, set()) | self._ranks_of.get(file, set())
        return {rank for rank in told if rank is not None}

    def _done_without(self, event: Event) -> bool:
        """Return whether work was done long behind what was missing, in a file of a single writer: it went without, or started anew."""
        file = event.hit.file
        if event.category != "environment" or len(self._ranks_told(file)) > 1:
            return False
        behind = event.hit.line + _SET_UP
        # Who counts steps, and counts none behind it, may save as it gives up.
        counted = self.case.steps_in.get(file)
        gave_up = counted is not None and counted[-1].line < event.hit.line
        return self._last.done(file, behind, [name for name in DONE if not (gave_up and name == _SAVED)])

    def _printed_by_a_library(self, event: Event) -> bool:
        """Return whether a library caught what an event tells and printed it itself, and the job was only ended from outside.

        What nobody catches is printed from the top of the program on; what a library prints begins in the library.
        """
        if event.category != "environment" or event.place not in self._raised:
            return False
        last = self._last_raised(event)
        return last is not None and stays_in_a_library(last) and self._last.stopped(event)

    def _printed_by_the_program(self, event: Event) -> bool:
        """Return whether the program caught an exception, printed it, and said much more behind it, of which nothing failed.

        One that counts steps did none behind it, or it would be known to have gone on.
        """
        if event.place not in self._raised or event.hit.file in self._ranks_in or event.hit.file in self._in_hydra:
            return False
        if self.case.lines_behind(event.hit) < _LONG or self._last.failed(event):
            return False
        last = self._last_raised(event)
        return last is not None and caught_by_the_program(last) and len(self._ranks_told(event.hit.file)) < 2

    def _loaded_in_part(self, event: Event) -> bool:
        """Return whether a checkpoint did not fit, was loaded all the same as nothing raised, and the file tells of steps or of an epoch behind it."""
        if event.category != "checkpoint" or event.raised is not None or event.step is not None:
            return False
        if any(one.hit.line <= event.hit.line for one in self._raised_in.get(event.hit.file, ())):
            return False
        told = self._of_rank.get((event.hit.file, None))
        file = self.case.files.get(event.hit.file)
        begins = file is not None and _BEGINS_AN_EPOCH.match(file.last_text) is not None
        return begins or (told is not None and told.beyond(event.hit.line, 0, 1) > 0)

    def _last_raised(self, event: Event) -> Raised | None:
        """Return the last exception of the chain that an event is of."""
        raised = self._raised_in.get(event.hit.file, ())
        return next((one for one in raised if one.hit.line >= event.hit.line and not one.chained), None)

    @property
    def ended(self) -> bool:
        """Whether the run says that it is done."""
        return self._done

    @cached_property
    def first_step(self) -> int | None:
        """The first step that was told."""
        return min((one.step for one in self.case.steps if one.step is not None), default=None)

    @cached_property
    def last_step(self) -> int | None:
        """The last step that was told."""
        return max((one.step for one in self.case.steps if one.step is not None), default=None)


def _tables(case: Case) -> dict[int, int]:
    """Return where an agent says its last word in each file, its table or what ended itself: all of its ranks are dead by then.

    What ranks print to their output waits in the agent's buffer and may come out behind what they, and it, print of errors.
    """
    found: dict[int, int] = {}
    for event in case.events:
        if event.id in _TABLES or event.hit.text.startswith(_OF_AN_AGENT):
            found[event.hit.file] = max(event.hit.line, found.get(event.hit.file, 0))
    return found
