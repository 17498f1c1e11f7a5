"""A vote: one observation that speaks for or against a rank, a node, or for nobody in particular."""

from __future__ import annotations

import msgspec

from preflight.investigate.case import Case, Event
from preflight.investigate.progress import Progress
from preflight.vocabulary.incident import Quote


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen, and of whom it says something.

    Attributes:
        kind: The kind of observation; ``weights.toml`` says what it weighs.
        strength: How strongly it is there, 0 to 1; the weight is multiplied by it.
        rank: The rank; with ``node`` alone all ranks of the node; with neither: nobody in particular began it.
        text: What was seen, in one sentence.
    """

    kind: str
    text: str
    rank: int | None = None
    node: str | None = None
    strength: float = 1.0
    quotes: tuple[Quote, ...] = ()


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What the kinds of evidence look at.

    Attributes:
        case: The attempt that is judged.
        progress: What went on after what.
        failing: The events that were not recovered from, in order.
        window: Seconds within which two events cannot be told apart, beside their own errors.
    """

    case: Case
    progress: Progress
    failing: tuple[Event, ...]
    window: float = 0.0

    def roots(self) -> tuple[Event, ...]:
        """The events that name a cause on a rank or a node."""
        return tuple(event for event in self.failing if event.role == "root")


def before(one: Event, other: Event) -> bool:
    """Return whether one event is certainly earlier than another."""
    if one.hit.file == other.hit.file and one.rank == other.rank:
        return one.hit.line < other.hit.line
    if one.time is None or other.time is None:
        return False
    if one.node == other.node and one.node is not None:
        return one.time + one.hit.time_error < other.time - other.hit.time_error
    return one.time + one.error < other.time - other.error
