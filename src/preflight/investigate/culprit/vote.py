"""A vote: one observation that speaks for or against a rank, a node, or for nobody in particular."""

from __future__ import annotations

from functools import cached_property

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.investigate.course.progress import Progress
from preflight.vocabulary.incident import Quote


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen, and of whom it says something.

    Attributes:
        kind: The kind of observation; ``weights.toml`` says what it weighs.
        strength: How strongly it is there, 0 to 1; the weight is multiplied by it.
        rank: The rank; with ``node`` alone all ranks of the node; with neither: nobody in particular began it.
        text: What was seen, in one sentence.
        shared: It was seen of several ranks alike, and one of them alone would explain it.
    """

    kind: str
    text: str
    rank: int | None = None
    node: str | None = None
    strength: float = 1.0
    quotes: tuple[Quote, ...] = ()
    shared: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True, dict=True):
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

    @cached_property
    def waited(self) -> bool:
        """Whether ranks waited for others until a limit: who is waited for need not have ended."""
        return any(event.role == "cascade" and is_wait(event) and not from_dump(event) for event in self.failing)

    @cached_property
    def differed(self) -> bool:
        """Whether ranks called what does not fit together: whose process ends of it first is chance."""
        return any(event.role == "cascade" and any(word in event.id for word in _DIFFER) for event in self.failing)

    def roots(self) -> tuple[Event, ...]:
        """The events that name a cause on a rank or a node."""
        return self._roots

    @cached_property
    def _roots(self) -> tuple[Event, ...]:
        return tuple(event for event in self.failing if event.role == "root")


_DIFFER = ("mismatch", "inconsistent", "truncated", "invalid-gloo-scalar")
STORE_WAITS = "network.store-clients-missing"
STORE_REFUSED = "network.store-refused"
TOO_MUCH = "network.invalid-gloo-scalar"
_REDUCED = "numerical.grad-norm-nan"
_WAITS = ("timeout", "watchdog", "monitored", "flight.", "stacks.", "hang")


def is_wait(event: Event) -> bool:
    """Return whether an event tells that somebody waited in vain."""
    return any(word in event.id for word in _WAITS)


def tells_of_others(event: Event) -> bool:
    """Return whether an event tells of others: who keeps the store says so of those who did not come, and gives up for them."""
    return (event.role == "cascade" and not of_its_own_loader(event)) or event.id == STORE_WAITS


def of_its_own_loader(event: Event) -> bool:
    """Return whether an event is what came of a loader worker: one does not know why it ended, and it is that of no other rank."""
    return event.role == "cascade" and event.category == "data"


def speaks_for_itself(event: Event) -> bool:
    """Return whether an event is what a process says of itself: neither how it ended nor whom it waited for in vain."""
    return not event.id.startswith("exit.") and event.id != STORE_WAITS


def compares(event: Event) -> bool:
    """Return whether an event tells that two ranks differ, and not which of them is as it should be."""
    return event.id == TOO_MUCH or "theirs" in event.hit.fields or "differs" in event.hit.fields


def from_dump(event: Event) -> bool:
    """Return whether an event is what dumps show, and no line that somebody printed."""
    return event.id.startswith(("flight.", "stacks."))


def best_roots(scene: Scene) -> dict[int, Event]:
    """Return what each rank that names a cause names first: what a signature took before what none did."""
    best: dict[int, Event] = {}
    first = _own_numbers(scene)
    for event in scene.roots():
        if event.rank is None or _from_others(event, first) or event.id == STORE_WAITS:
            continue  # who keeps the store tells of others
        known = best.get(event.rank)
        if known is None or (event.specific, before(event, known)) > (known.specific, False):
            best[event.rank] = event
    kept = best.get(0)
    if not alone_with_the_store(scene) and (kept is None or not kept.specific or kept.id == STORE_REFUSED):
        return best
    # The first rank keeps the store: where it names a cause, or left, who cannot reach the store tells of it.
    return {rank: event for rank, event in best.items() if event.id != STORE_REFUSED}


def alone_with_the_store(scene: Scene) -> bool:
    """Return whether no rank but the first, which keeps the store, could reach it, and that one is there and tells of no failure.

    Where it waits for them at an address at which they are not, it says so when its own time is up; where it alone tells steps, it
    trains without them, and keeps no store.
    """
    refused = {event.rank for event in scene.roots() if event.id == STORE_REFUSED}
    others = set(scene.case.people.ranks()) - {0}
    tells = any(event.rank == 0 and event.role in ("root", "cascade") for event in scene.failing)
    if len(others) < 2 or refused != others or 0 not in scene.case.people.seen or tells:
        return False
    return {scene.case.people.placed(one.who, one.file)[0] for one in scene.case.steps} != {0}


def _own_numbers(scene: Scene) -> tuple[int, int] | None:
    """Return the step at which a rank says first that its own loss is no number, and that rank."""
    own = [
        (event.step if event.step is not None else _last_step(scene, event.rank), event.rank)
        for event in scene.roots()
        if event.category == "numerical" and event.id != _REDUCED and event.rank is not None
    ]
    return min(own, default=None)


def _last_step(scene: Scene, rank: int) -> int:
    """Return the last step that a rank told in any of its files; 0 where it told none."""
    case = scene.case
    return max((one.step for one in case.steps if one.step is not None and case.people.rank_of(one.who, one.file) == rank),
               default=0)  # fmt: skip


def _from_others(event: Event, first: tuple[int, int] | None) -> bool:
    """Return whether a rank has its numbers from another one: gradients, and their norm, are those of all ranks."""
    if event.id != _REDUCED or first is None or event.rank == first[1]:
        return False
    return event.step is None or event.step >= first[0]


def before(one: Event, other: Event) -> bool:
    """Return whether one event is certainly earlier than another."""
    if one.category == other.category == "numerical" and None not in (one.step, other.step) and one.step != other.step:
        # All ranks make the same steps: what stands in the line of an earlier one came before.
        return (one.step or 0) < (other.step or 0)
    if one.hit.file == other.hit.file and one.rank == other.rank:
        return one.hit.line < other.hit.line
    if one.time is None or other.time is None or one.hit.time_open:
        return False  # of what bears no time at the end of a file, only the earliest is known
    if one.node == other.node and one.node is not None:
        return one.time + one.hit.time_error < other.time - other.hit.time_error
    return one.time + one.error < other.time - other.error
