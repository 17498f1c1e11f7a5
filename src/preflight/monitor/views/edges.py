"""The way from parameters to a loss in plain words: which operation takes what, and what is another than it was."""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.monitor.views.listed import departed, listed

_SIDE = re.compile(
    r"(?P<name>\w+)(?P<settings>\([^()]*\))?(?P<held>\{[^{}]*\})?(?P<slot>\[\d+\])?(?P<output>#\d+)?(?: at (?P<at>.+))?"
)
_PREFIXES = re.compile(r"^Native(?=[A-Z])|Backward$")
_TAKES = "<"
_MOST = 2
_INPUT = {"given": "the input", "leaf": "a number of the program's own", "loss": "the loss"}


def departure(known: Iterable[Iterable[str]], way: Iterable[str]) -> str:
    """What is another than in the nearest way that was learnt, in a few words; empty where nothing is.

    Args:
        known: Each of the ways that are right, by its edges: which operation takes what.
        way: What was seen.
    """
    gone, new = departed(known, way)
    said = _said(gone, new, False)
    if any(before == now for _, before, now in said):
        said = _said(gone, new, True)  # they differ in their settings, or in the order of what they take
    parts = [_words(*one) for one in said]
    # What is taken in another's place says more than what is only gone, or new.
    parts.sort(key=lambda one: "instead" not in one)
    more = len(parts) - _MOST
    return "; ".join(parts[:_MOST]) + (f"; and {more} more" if more > 0 else "")


def named(edges: Iterable[str]) -> str:
    """Edges in words: the first few."""
    return listed([" takes ".join(_plain(side, True) for side in edge.partition(_TAKES)[::2]) for edge in edges])


def owner(names: str) -> str:
    """The module that parameters are of; their names where they are of several."""
    owners = {name.rpartition(".")[0] or name for name in names.split(",")}
    return owners.pop() if len(owners) == 1 else names


def _said(gone: list[str], new: list[str], whole: bool) -> list[tuple[str, str, str]]:
    """By what takes: what it took, and what it takes now."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for at, edges in enumerate((gone, new)):
        for edge in edges:
            taker, _, given = edge.partition(_TAKES)
            found.setdefault(_plain(taker, whole), ([], []))[at].append(_plain(given, whole))
    return [(taker, " and ".join(sorted(before)), " and ".join(sorted(now))) for taker, (before, now) in found.items()]


def _words(taker: str, before: str, now: str) -> str:
    if before and now:
        return f"{taker} takes {now} instead of {before}"
    return f"{taker} no longer takes {before}" if before else f"{taker} takes {now}, and did not"


def _plain(side: str, whole: bool) -> str:
    """An operation by its name, and whose parameters it has or what it follows; with ``whole``, its settings and its place."""
    if side in _INPUT:
        return _INPUT[side]
    match = _SIDE.fullmatch(side)
    if match is None:
        return side
    name = _PREFIXES.sub("", match["name"])
    if whole:
        name += (match["settings"] or "") + (match["slot"] or "") + (match["output"] or "")
    held = match["held"]
    if held:
        return f"{name} of {owner(held[1:-1])}"
    return f"{name} after {owner(match['at'])}" if match["at"] else name
