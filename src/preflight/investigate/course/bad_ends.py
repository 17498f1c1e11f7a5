"""What a process ended of though steps are told behind it: where ranks do not wait for each other, the others go on for a while."""

from __future__ import annotations

from collections.abc import Mapping

from preflight.investigate.case.case import Case, Event
from preflight.vocabulary.log import Who

_UNCAUGHT = 1
"""The code with which Python ends a process that did not catch what was raised."""


class BadEnds:
    """The ends of processes that a launcher tells of, held against what the processes said last."""

    def __init__(self, case: Case, steps: Mapping[tuple[int, int | None], int]) -> None:
        """Look through the ends once.

        Args:
            case: The attempt.
            steps: For each file and rank the line of its last step; for a file and None, of its last step at all.
        """
        self._steps = steps
        self._exceptions = {one.hit.place for one in case.raised if one.exception}
        self._raised: dict[tuple[int, Who], int] = {}
        for raised in case.raised:
            told = (raised.hit.file, raised.hit.who)
            self._raised[told] = max(raised.hit.line, self._raised.get(told, 0))
        self._codes: dict[int, dict[int, int]] = {}
        for ending in case.endings:
            if ending.file is not None and ending.line is not None and ending.code is not None:
                codes = self._codes.setdefault(ending.file, {})
                codes[ending.line] = ending.code or codes.get(ending.line, 0)
        ended = (case.people.rank_of(one.about, one.file) for one in case.endings if one.code == _UNCAUGHT)
        self._ended = frozenset(rank for rank in ended if rank is not None)

    def has(self, event: Event) -> bool:
        """Return whether a process ended of an event, or an event is such an end, whatever steps are told behind it."""
        return self._died_of(event) or self._last_of_all(event)

    def _died_of(self, event: Event) -> bool:
        """Return whether an event is the last exception of a rank that ended with one, and that told no step since."""
        if event.role != "root" or event.rank not in self._ended or event.place not in self._exceptions:
            return False
        file, line = event.hit.place
        last = self._raised.get((file, event.hit.who), line)
        return line >= last and self._steps.get((file, event.rank), 0) < line

    def _last_of_all(self, event: Event) -> bool:
        """Return whether an event is the end of a process, and its file tells behind the last step that all others ended badly, too."""
        last = self._steps.get((event.hit.file, None))
        told = self._codes.get(event.hit.file, {})
        if not event.id.startswith("exit.") or last is None:
            return False
        return len(told) > 1 and all(told.values()) and max(told) > last
