"""The heads of the lines of one file: what stands before a line is taken apart once for all that differ in their time alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from preflight.source.logs.label_forms import LEARNT
from preflight.source.logs.prefixes import Head, LineStyle, head_of
from preflight.source.logs.times import Stamp, iso_at
from preflight.vocabulary.log import Who

_NOBODY = Who()
_WORD = re.compile(r"\s*(?!(?i:rank|std|root))(?:[a-z]{3,}|[A-Z][a-z]{3,}) ")
"""A line that begins with a word and a blank has nothing before its text, whatever follows."""
_BAR = re.compile(r"\s*(?:(?!(?i:rank|std|root))[A-Z][a-z]{2,}(?: [a-z]+){0,4}:? *)?\d{1,3}%\|")
"""A progress bar, with or without a word of what it is of."""
_FARTHEST_BAR = 40
_NOTHING = Head(_NOBODY, None, None, "", 0)
_BEHIND_BAR = re.compile(r"\[rank(\d{1,7})\]:(?=\[[IWEF]|\s)")
_MOST_ALIKE = 6
_MOST_KNOWN = 4096


class _KnownHead(NamedTuple):
    start: int
    end: int
    stop: int
    before: str
    after: str
    head: Head


class KnownHeads:
    """The heads of the lines of a file; one that differs from an earlier one in its time alone is not taken apart again."""

    def __init__(self, style: LineStyle = "") -> None:
        """Know none."""
        self._style = style
        self._learns_bare = not style.startswith(LEARNT)
        self._known: dict[str, list[_KnownHead]] = {}
        self._bare: dict[str, Head] = {}

    def head_of(self, text: str) -> Head:
        """Take the prefixes off a line from which ``plain`` took the colours."""
        if self._style == "behind":  # what begins alike ends otherwise
            return head_of(text, self._style)
        labelled = "[rank" in text  # torch's own label is found behind what is no prefix, too
        bare = self._bare.get(text[:12]) if not labelled else None
        if bare is not None:
            return bare
        if "%|" in text[:_FARTHEST_BAR] and not self._style and _BAR.match(text):
            return _behind_bar(text)
        known = self._known.get(text[:9])
        if known is not None:
            for one in known:
                if labelled and one.head.who.rank is None:
                    continue
                if text[one.end : one.stop] == one.after and text[9 : one.start] == one.before:
                    stamp = iso_at(text, one.start, one.end)
                    if stamp is not None:
                        return Head(one.head.who, stamp, None, one.head.level, one.head.end)
        head = head_of(text, self._style)
        stamp = head.stamp
        if stamp is not None and head.inner is None and stamp.form == "iso" and not stamp.zoned:
            self._learn(text, head, stamp)
        elif self._learns_bare and stamp is None and head.who == _NOBODY and not head.level and _WORD.match(text[:12]):
            if len(self._bare) > _MOST_KNOWN:
                self._bare.clear()
            self._bare[text[:12]] = head
        return head

    def _learn(self, text: str, head: Head, stamp: Stamp) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        these = self._known.setdefault(text[:9], [])
        if len(these) >= _MOST_ALIKE:
            these.pop()
        stop = head.end + 4
        these.insert(0, _KnownHead(stamp.start, stamp.end, stop, text[9 : stamp.start], text[stamp.end : stop], head))


def _behind_bar(text: str) -> Head:
    """Return who wrote behind a bar that was not ended by a new line: what a rank says there is its own."""
    if "[rank" not in text:
        return _NOTHING
    match = _BEHIND_BAR.search(text)
    return Head(Who(rank=int(match[1])), None, None, "", 0) if match is not None else _NOTHING
