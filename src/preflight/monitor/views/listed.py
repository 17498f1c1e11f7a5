"""Parts of something, as a person is told of them: the first few, and what differs from the nearest that was learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_NAMED = 4


def listed(parts: Sequence[str]) -> str:
    """The first parts by name, and how many more there are."""
    more = len(parts) - _MOST_NAMED
    return ", ".join(parts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def departed(known: Iterable[Iterable[str]], parts: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is missing of the nearest of what is known, and what is new beside it, in order.

    Args:
        known: Each of the ways that are right, by its parts.
        parts: What was seen.
    """
    seen = set(parts)
    nearest = min(map(set, known), key=lambda one: len(one ^ seen), default=seen)
    return sorted(nearest - seen), sorted(seen - nearest)


def departure(known: Iterable[Iterable[str]], parts: Iterable[str], by: str = "with") -> str:
    """The same as the end of a sentence, what is new behind a word for it; empty where only order or number differ."""
    gone, new = departed(known, parts)
    said = [f"without {listed(gone)}" if gone else "", f"{by} {listed(new)}" if new else ""]
    return f"{' and '.join(filter(None, said))}, other than in the runs this was learnt from" if gone or new else ""


def difference(known: Iterable[Iterable[str]], parts: Iterable[str]) -> str | None:
    """What there should be in place of some parts, told beside the nearest of what is known; None where that is there."""
    gone, new = departed(known, parts)
    said = [listed(gone) if gone else "", f"no {listed(new)}" if new else ""]
    return ", and ".join(filter(None, said)) or None
