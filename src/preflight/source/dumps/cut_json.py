"""Reads what can be read of JSON that was cut off."""

from __future__ import annotations

from typing import Any


def salvage(text: str) -> Any:
    """Return the value of JSON that ends too early: what was complete, with everything open closed; None if nothing was.

    The text is cut back to the last place at which a value of a list or an object had just ended, then closed.
    """
    import json

    ends = _ends(text)
    # Mostly the last place does; a few more are tried for a text that is broken in another way.
    for place, closing in reversed(ends[-8:]):
        try:
            return json.loads(text[:place] + closing)
        except ValueError:
            continue
    return None


def _ends(text: str) -> list[tuple[int, str]]:
    """Return the places before which everything is complete, each with what closes the text there."""
    stack: list[str] = []
    ends: list[tuple[int, str]] = []
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
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
            ends.append((place + 1, "".join(reversed(stack))))
        elif char == "," and stack:
            ends.append((place, "".join(reversed(stack))))
    return ends
