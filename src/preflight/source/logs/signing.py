"""Which signatures take the lines of one file: the first and the last lines of each writer are kept, all are counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec

from preflight.source.logs.matching import Matcher, Value
from preflight.source.logs.pages import Line, Page
from preflight.source.logs.witness import CUT, Witness
from preflight.vocabulary.log import Hit, Who

_T = TypeVar("_T")

KEPT = 50
"""Of a signature that one writer prints again and again: so many of the first and of the last lines are kept."""
KEPT_OF_STEPS = 2
"""The same of one that takes the lines of steps: what they tell is kept as steps, and thousands of ranks print one at each."""
TRUSTED = 200
"""A signature that took so many lines and refused none that hold its literal is no more asked of each one."""
_LONGEST_FORM = 300
_MOST_FORMS = 20_000


class _Tally:
    """The lines of one signature and one writer."""

    __slots__ = ("count", "first", "kept", "last", "recent")

    def __init__(self, kept: int) -> None:
        self.count = 0
        self.kept = kept
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=kept)
        self.recent: deque[tuple[Page, int, int]] = deque(maxlen=kept)


class Form:
    """Lines that differ in their numbers alone: how many were looked at, and which signatures none of them is of."""

    __slots__ = ("count", "refused")

    def __init__(self) -> None:
        self.count = 0
        self.refused: set[int] = set()


class Signing:
    """The signatures seen in one file."""

    def __init__(self, matcher: Matcher, witness: Witness) -> None:
        """Begin with none."""
        self._matcher = matcher
        self._witness = witness
        self._tallies: dict[tuple[int, Who], _Tally] = {}
        self._refused: set[int] = set()
        self._forms: dict[bytes, Form] = {}
        self._taken: dict[int, int] = {}

    def counted_only(self, page: Page, number: int, start: int, end: int) -> bool:
        """Count a line of a storm without looking at it: its signature took all the lines before it."""
        if self._taken.get(number, 0) < TRUSTED or number in self._refused:
            return False
        return self.count(page, (number,), page.quick_who(start, end, self._witness.file.who), start, end)

    def count(self, page: Page, numbers: Collection[int], who: Who, start: int, end: int) -> bool:
        """Count a line that signatures are known to take; False where one has not enough lines of this writer yet."""
        writer = _writer(who)
        found = []
        for number in numbers:
            tally = self._tallies.get((number, writer))
            if tally is None or tally.count < tally.kept:
                return False
            found.append(tally)
        for tally in found:
            tally.count += 1
            tally.recent.append((page, start, end))
        return True

    def again(self, page: Page, numbers: Collection[int], who: Who, start: int, end: int) -> None:
        """Take a line that signatures are known to take."""
        if not self.count(page, numbers, who, start, end):
            self.take(page, page.line(start, end), list(numbers), None)

    def knows(self, numbers: Collection[int], who: Who) -> bool:
        """Whether each of the signatures has enough lines of a writer, so that those that follow are counted."""
        tallies = (self._tallies.get((number, _writer(who))) for number in numbers)
        return all(tally is not None and tally.count >= tally.kept for tally in tallies)

    def count_all(
        self, page: Page, numbers: Collection[int], who: Who, spans: Iterable[tuple[int, int]], count: int
    ) -> None:
        """Count lines that signatures ``knows`` of; of a writer's many, the last ``KEPT`` are enough."""
        entries = [(page, start, end) for start, end in spans]
        for number in numbers:
            tally = self._tallies[number, _writer(who)]
            tally.count += count
            tally.recent.extend(entries)

    def form(self, page: Page, start: int, end: int) -> Form | None:
        """Return what is known of lines that differ from this one in their numbers alone."""
        key = page.data[start : min(end, start + _LONGEST_FORM)].translate(None, b"0123456789")
        form = self._forms.get(key)
        if form is None and len(self._forms) < _MOST_FORMS:
            form = self._forms[key] = Form()
        return form

    def take(self, page: Page, line: Line, numbers: list[int], form: Form | None) -> tuple[int, ...]:
        """Ask signatures for a line, and return those that take it."""
        taken: list[int] = []
        if form is not None:
            form.count += 1
        for number in sorted(numbers):
            fields = self._matcher.take(number, line.text, line.head.end)
            if fields is None:
                self._refused.add(number)
                if form is not None and not self._matcher.weighs_numbers[number]:
                    form.refused.add(number)
                continue
            taken.append(number)
            self._taken[number] = self._taken.get(number, 0) + 1
            writer = _writer(self._witness.who(line))
            tally = self._tallies.get((number, writer))
            if tally is None:
                kept = KEPT_OF_STEPS if number in self._matcher.of_steps else KEPT
                tally = self._tallies[number, writer] = _Tally(kept)
            tally.count += 1
            if len(tally.first) < tally.kept:
                tally.first.append(self._signed(page, line, number, fields))
            else:
                tally.recent.append((page, line.start, line.end))
        return tuple(taken)

    def settle(self, now: Page | None) -> None:
        """Make the last lines of the storms into hits, while their block is there: where the next one has not as many.

        Lines of ``now``, the block just read, wait for the next one.
        """
        for (number, _), tally in self._tallies.items():
            waiting = []
            for entry in tally.recent:
                page, start, end = entry
                if page is now:
                    waiting.append(entry)
                    continue
                line = page.line(start, end)
                fields = self._matcher.take(number, line.text, line.head.end)
                if fields is not None:
                    tally.last.append(self._signed(page, line, number, fields))
            tally.recent.clear()
            tally.recent.extend(waiting)

    def _signed(self, page: Page, line: Line, number: int, fields: dict[str, Value]) -> Hit:
        signature = self._matcher.signatures[number]
        below: tuple[str, ...] = ()
        if signature.after:
            below = tuple(text[:CUT] for text in page.below(line, signature.after))
            fields = self._matcher.detail(number, below) | fields
        return self._witness.hit(page, line, signature.id, fields, below, _subject(signature.subject, fields))

    def hits(self) -> list[Hit]:
        """Return the lines that were kept, in their order, each with how often there were such ones."""
        found: list[Hit] = []
        for tally in self._tallies.values():
            kept = [*tally.first, *tally.last]
            if tally.count > 1:
                kept = [msgspec.structs.replace(hit, times_seen=tally.count) for hit in kept]
            found += kept
        return sorted(found, key=lambda hit: (hit.offset, hit.signature))


def _writer(who: Who) -> Who:
    """Return by whom lines are counted: a process whose number is not in every line is one writer all the same."""
    return Who(who.rank, who.node, who.local_rank) if who.pid is not None or who.attempt is not None else who


def _of(kind: type[_T], value: Value | None) -> _T | None:
    return value if isinstance(value, kind) else None


def _subject(field: str | None, fields: dict[str, Value]) -> Who | None:
    value = fields.get(field) if field else None
    if field is None or value is None:
        return None
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        if "local" in field:
            return Who(local_rank=value)
        if "pid" in field:
            return Who(pid=value)
        return Who(rank=value, node=_of(str, fields.get("ip")), local_rank=_of(int, fields.get("local_rank")),
                   pid=_of(int, fields.get("pid")))  # fmt: skip
    return Who(node=value) if isinstance(value, str) else None
