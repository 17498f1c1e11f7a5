"""Evidence: how often each relation held of each subject, in which contexts, and which values it saw.

One pass over the examples of a run; what is kept is bounded, and the evidence of parts (ranks, runs, machines) put
together is the same as that of all at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import msgspec

from preflight.monitor.keys import frozen, thawed
from preflight.monitor.relation import UNSEEN, Example

MOST_FIELD_VALUES = 16
"""A field of contexts that took more values than this is a measurement, not a condition, and is forgotten."""
MOST_VALUES = 8
"""A subject of which more values than this were seen has no value that could be learnt."""
MOST_SUBJECTS = 50_000
"""Subjects of one relation that are kept; of further ones only the number is."""
_MOST_PLACES = 20_000
NEVER = frozenset({"step", "iteration", "i", "s", "q", "rank", "ranks"})
"""Fields that no precondition may speak of: the number of a step, and lists of ranks."""

Context = tuple[tuple[str, Any], ...]
"""The fields of a context and their values, in the order of the fields."""


class Cell:
    """What was seen in one context: how often it held and failed, in how many iterations, and which values."""

    __slots__ = ("fails", "holds", "values")

    def __init__(self, holds: int = 0, fails: int = 0, values: dict[Any, int] | None = None) -> None:
        self.holds = holds
        self.fails = fails
        self.values: dict[Any, int] | None = {} if values is None else values

    def add(self, other: Cell) -> None:
        """Take in what was seen elsewhere in the same context."""
        self.holds += other.holds
        self.fails += other.fails
        if self.values is None or other.values is None:
            self.values = None
            return
        for value, count in other.values.items():
            self.values[value] = self.values.get(value, 0) + count
        if len(self.values) > MOST_VALUES:
            self.values = None


Table = dict[Context, Cell]


class Subject:
    """The cells of one subject, and in how many iterations it was judged."""

    __slots__ = ("cells", "last", "windows")

    def __init__(self) -> None:
        self.cells: Table = {}
        self.windows = 0
        self.last: Any = None


class Evidence:
    """What was seen of one relation.

    Attributes:
        relation: Its name.
        subjects: What was seen of each subject.
        dropped: Fields of contexts that were forgotten because they took too many values.
        surplus: Examples of subjects that were not kept because there were too many subjects.
    """

    def __init__(self, relation: str) -> None:
        self.relation = relation
        self.subjects: dict[tuple[Any, ...], Subject] = {}
        self.dropped: set[str] = set()
        self.surplus = 0
        self._seen: dict[str, set[Any]] = {}
        self._contexts: dict[Context, Context] = {}
        self._places: dict[tuple[Any, ...], tuple[Subject, Cell]] = {}  # by subject and context as they are told

    def see(self, example: Example, window: Any = None, scope: str | None = None) -> None:
        """Count an example.

        Args:
            example: What was judged.
            window: Anything that differs from one iteration to the next.
            scope: The models whose training it is of; the last part of the subject where it is given.
        """
        at: Any = (example.subject, scope, *example.context.items())
        try:
            known = self._places.get(at)
        except TypeError:  # a list in it
            known = at = None
        if known is None:
            known = self._place(example, scope)
            if known is None:
                self.surplus += 1
                return
            if at is not None and len(self._places) < _MOST_PLACES:
                self._places[at] = known
        subject, cell = known
        if subject.last != window or window is None:
            subject.last = window
            subject.windows += 1
        if example.value is not UNSEEN:
            cell.holds += 1
            if cell.values is not None:
                value = frozen(example.value)
                cell.values[value] = cell.values.get(value, 0) + 1
                if len(cell.values) > MOST_VALUES:
                    cell.values = None
        elif example.holds:
            cell.holds += 1
        else:
            cell.fails += 1

    def _place(self, example: Example, scope: str | None) -> tuple[Subject, Cell] | None:
        """Where an example is counted; None where there are too many subjects."""
        key = example.subject if scope is None else (*example.subject, scope)
        try:
            subject = self.subjects.get(key)
        except TypeError:  # a list in it
            key = frozen(key)
            subject = self.subjects.get(key)
        if subject is None:
            if len(self.subjects) >= MOST_SUBJECTS:
                return None
            subject = self.subjects[key] = Subject()
        context = self._context(example.context)
        cell = subject.cells.get(context)
        if cell is None:
            cell = subject.cells[context] = Cell()
        return subject, cell

    def merge(self, other: Evidence) -> None:
        """Take in what was seen elsewhere."""
        for field, values in other._seen.items():
            self._seen.setdefault(field, set()).update(values)
        self.surplus += other.surplus
        self.dropped |= other.dropped
        self._forget()
        for key, subject in other.subjects.items():
            mine = self.subjects.get(key)
            if mine is None:
                if len(self.subjects) >= MOST_SUBJECTS:
                    self.surplus += sum(cell.holds + cell.fails for cell in subject.cells.values())
                    continue
                mine = self.subjects[key] = Subject()
            mine.windows += subject.windows
            for context, cell in subject.cells.items():
                mine.cells.setdefault(self._kept(context), Cell()).add(cell)

    def table(self, subject: tuple[Any, ...] | None = None) -> Table:
        """The cells of a subject; without one, of all subjects together."""
        if subject is not None:
            return self.subjects[subject].cells
        together: Table = {}
        for one in self.subjects.values():
            for context, cell in one.cells.items():
                together.setdefault(context, Cell()).add(cell)
        return together

    def windows(self) -> int:
        """In how many iterations the subject that was judged most often was judged."""
        return max((subject.windows for subject in self.subjects.values()), default=0)

    def _context(self, context: Mapping[str, Any]) -> Context:
        """The fields of a context that may stand in a precondition."""
        raw = tuple(context.items())
        try:
            known = self._contexts.get(raw)
        except TypeError:  # a list, of ranks or of names, says where it was and not what was so
            raw = tuple(pair for pair in raw if isinstance(pair[1], Hashable))
            known = self._contexts.get(raw)
        if known is None:
            fields = sorted(pair for pair in raw if pair[0] not in NEVER and _plain(pair[1]))
            for field, value in fields:
                self._seen.setdefault(field, set()).add(_typed(value))
            self._forget()
            known = self._kept(tuple(fields))
            if len(self._contexts) < 4 * MOST_FIELD_VALUES**2:
                self._contexts[raw] = known
        return known

    def _kept(self, context: Context) -> Context:
        if not self.dropped:
            return context
        return tuple(pair for pair in context if pair[0] not in self.dropped)

    def _forget(self) -> None:
        """Drop the fields that took too many values, and put together the cells that differed in them alone."""
        varied = {field for field, values in self._seen.items() if len(values) > MOST_FIELD_VALUES}
        if not varied and not (self.dropped & set(self._seen)):
            return
        self.dropped |= varied
        for field in self.dropped:
            self._seen.pop(field, None)
        self._contexts.clear()
        self._places.clear()
        for subject in self.subjects.values():
            cells: Table = {}
            for context, cell in subject.cells.items():
                cells.setdefault(self._kept(context), Cell()).add(cell)
            subject.cells = cells

    def state(self) -> dict[str, Any]:
        """What is kept, as plain lists and dictionaries in an order that follows from what they say."""
        return {
            "relation": self.relation,
            "dropped": sorted(self.dropped),
            "surplus": self.surplus,
            "subjects": [
                [
                    thawed(key),
                    subject.windows,
                    [
                        [
                            [list(pair) for pair in context],
                            cell.holds,
                            cell.fails,
                            None
                            if cell.values is None
                            else sorted(([thawed(v), n] for v, n in cell.values.items()), key=_text),
                        ]
                        for context, cell in sorted(subject.cells.items(), key=lambda item: _text(item[0]))
                    ],
                ]
                for key, subject in sorted(self.subjects.items(), key=lambda item: _text(item[0]))
            ],
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Evidence:
        """The evidence that ``state`` gave."""
        made = cls(state["relation"])
        made.surplus = state["surplus"]
        made.dropped = set(state["dropped"])
        for key, windows, cells in state["subjects"]:
            subject = made.subjects[frozen(key)] = Subject()
            subject.windows = windows
            for fields, holds, fails, values in cells:
                context = tuple((field, value) for field, value in fields)
                for field, value in context:
                    made._seen.setdefault(field, set()).add(_typed(value))
                held = None if values is None else {frozen(value): count for value, count in values}
                cell = Cell(holds, fails)
                cell.values = held
                subject.cells[context] = cell
        return made


class Observed(dict[str, Evidence]):
    """The evidence of a run, by the name of the relation."""

    def see(self, relation: str, example: Example, window: Any = None, scope: str | None = None) -> None:
        """Count an example of a relation."""
        evidence = self.get(relation)
        if evidence is None:
            evidence = self[relation] = Evidence(relation)
        evidence.see(example, window, scope)

    def merge(self, other: Mapping[str, Evidence]) -> Observed:
        """Take in what was seen elsewhere."""
        for name in sorted(other):
            if name not in self:
                self[name] = Evidence(name)
            self[name].merge(other[name])
        return self

    def encoded(self) -> bytes:
        """What is kept, in bytes; equal evidence has equal bytes."""
        return msgspec.json.encode([self[name].state() for name in sorted(self)])

    @classmethod
    def decoded(cls, content: bytes) -> Observed:
        """The evidence of such bytes."""
        found = (Evidence.of_state(state) for state in msgspec.json.decode(content))
        return cls({evidence.relation: evidence for evidence in found})


def together(parts: Iterable[Mapping[str, Evidence]]) -> Observed:
    """The evidence of several parts as one."""
    whole = Observed()
    for part in parts:
        whole.merge(part)
    return whole


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int))


def _typed(value: Any) -> tuple[str, Any]:
    """A value apart from an equal one of another type."""
    return type(value).__name__, value


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
