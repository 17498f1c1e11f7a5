"""Reads what can be read of JSON that was cut off."""

from __future__ import annotations

from collections import deque
from typing import Any

_TRIED = 8
"""So many places are tried, the last one first: mostly that does; the others are for a text that is broken in another way."""
_Open = tuple[str, Any] | None
"""What closes the innermost bracket that is open, and the brackets around it: places share them, however deep they lie."""


def salvage(text: str) -> Any:
    """Return the value of JSON that ends too early: what was complete, with everything open closed; None if nothing was.

    The text is cut back to the last place at which a value of a list or an object had just ended, then closed.
    """
    import json

    for place, around in reversed(_ends(text)):
        try:
            return json.loads(text[:place] + _closing(around))
        except (ValueError, RecursionError):
            continue
    return None


def _closing(around: _Open) -> str:
    """Return the brackets that close everything, the innermost first."""
    brackets: list[str] = []
    while around is not None:
        bracket, around = around
        brackets.append(bracket)
    return "".join(brackets)


def _ends(text: str) -> deque[tuple[int, _Open]]:
    """Return the last places before which everything is complete, each with what is open there."""
    around: _Open = None
    ends: deque[tuple[int, _Open]] = deque(maxlen=_TRIED)
    inside = escaped = False
    for place, char in enumerate(text):
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in "{[":
            around = ("}" if char == "{" else "]", around)
        elif char in "}]":
            if around is None or around[0] != char:
                break
            around = around[1]
            ends.append((place + 1, around))
        elif char == "," and around is not None:
            ends.append((place, around))
    return ends
