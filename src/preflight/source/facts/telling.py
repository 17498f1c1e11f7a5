"""How a fact is made from a value: the plain value with its place, or the reason why it is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from preflight.source.values import Known, Value, plain, settle, why_unknown
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Location

if TYPE_CHECKING:
    from preflight.source.trace import Event


def place_of(value: Value | None) -> Location | None:
    """Where a value is written."""
    if value is None or value.site is None:
        return None
    return value.site.script.location(value.site.node)


def fact_of(value: Value | None, how: str | None = None, kind: type | tuple[type, ...] = object) -> Fact:
    """A fact from a value of the script.

    Args:
        value: The value, or None when nothing was given.
        how: How it is learned, where the value does not say.
        kind: The types that make sense; others are not known.
    """
    settled = settle(value) if value is not None else None
    found: Any = plain(value)
    if found is None or not isinstance(found, kind) or isinstance(found, bool) and kind in (int, (int, float)):
        return Fact(None, place_of(settled), how, why_unknown(value) if found is None else f"{found!r} is not a number")
    said = settled.how if isinstance(settled, Known) and settled.how else None
    return Fact(found, place_of(settled), said or how)


def at(event: Event, value: Any, how: str) -> Fact:
    """A fact learned from a call."""
    return Fact(value, event.script.location(event.node), how)


def unknown(reason: str) -> Fact:
    """A fact that is not known."""
    return Fact(None, None, None, reason)
