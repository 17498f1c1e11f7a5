"""A rank that names a cause itself, and the one that did so first."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.exit_code import crashed_alike
from preflight.investigate.culprit.groups import groups_of
from preflight.investigate.culprit.sizes import sender_of_too_much
from preflight.investigate.culprit.vote import TOO_MUCH, Scene, Vote, before, best_roots, compares, of_its_own_loader

EARLIEST = 32


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for each rank with a root event, the surest one of each, and for the first of them in corrected time."""
    case = scene.case
    best = best_roots(scene)
    crashed = crashed_alike(scene)
    common = {rank for group in groups_of(scene) if group.everybody for rank in group.ranks}
    for rank, event in best.items():
        if event.id.startswith("exit.") or (event.id.startswith("end.") and rank in crashed):
            continue  # how it ended is evidence of its own
        if compares(event):
            continue
        kind = "root-event" if event.specific else "exception"
        # What all of them say tells none of them from the others.
        yield Vote(
            kind=kind,
            rank=rank,
            strength=0.3 if rank in common else 1.0,
            text=f"names a cause itself: {event.title}",
            quotes=(case.quote(event.hit),),
        )
    yield from _first(scene, list(best.values()))
    if not best:
        yield from _cut_off(scene)
        yield from _of_a_node(scene)
    loaders = _of_loaders(scene, set(best))
    for rank, event in loaders.items():
        yield Vote(kind="exception", rank=rank, text=f"fails for its own loader: {event.title}",
                   quotes=(case.quote(event.hit),))  # fmt: skip
    yield from _victims(scene, {*best, *loaders})


def _of_loaders(scene: Scene, named: set[int]) -> dict[int, Event]:
    """Return the ranks that name no cause and whose own loader failed them."""
    found: dict[int, Event] = {}
    for event in scene.failing:
        if event.rank is not None and event.rank not in named and of_its_own_loader(event):
            found.setdefault(event.rank, event)
    return found


def _first(scene: Scene, named: list[Event]) -> Iterator[Vote]:
    """Vote for those of whom nobody else was certainly earlier, where clocks tell them from the rest."""
    by_step = all(one.category == "numerical" and one.step is not None for one in named)
    if len(named) < 2 or (any(one.time is None for one in named) and not by_step):
        return
    shared = {rank for group in groups_of(scene) for rank in group.ranks if group.everybody or group.nodes}
    # Who is behind anybody is behind one of the earliest.
    early = sorted(named, key=lambda one: (one.time or 0.0) + one.error)[:EARLIEST]
    early += sorted(named, key=lambda one: one.step if one.step is not None else 0)[:EARLIEST]
    ahead = [one for one in named if not any(before(other, one) for other in early)]
    if len(ahead) == len(named) or any(one.rank in shared for one in ahead):
        return
    for one in ahead:
        tied = "" if len(ahead) == 1 else f" (tied with {len(ahead) - 1} others within the uncertainty of the clocks)"
        yield Vote(
            kind="first-in-time",
            rank=one.rank,
            strength=1.0 / len(ahead),
            text=f"is the first to name a cause, by {'steps' if by_step else 'corrected clocks'}{tied}",
            quotes=(scene.case.quote(one.hit),),
        )


def _of_a_node(scene: Scene) -> Iterator[Vote]:
    """Vote for the only one of several nodes that names a cause itself, where nothing tells which process is which rank."""
    people = scene.case.people
    if people.seen or len(people.nodes) < 2:
        return
    named: dict[str, Event] = {}
    for event in scene.roots():
        if event.node is not None and not event.id.startswith(("exit.", "end.")) and not compares(event):
            named.setdefault(event.node, event)
    if len(named) == 1:
        node, event = named.popitem()
        yield Vote(kind="root-event" if event.specific else "exception", node=node, text=f"names a cause itself: {event.title}",
                   quotes=(scene.case.quote(event.hit),))  # fmt: skip


def _cut_off(scene: Scene) -> Iterator[Vote]:
    """Vote for the few ranks whose traceback is cut off before it says anything, where nobody says more."""
    told: dict[int, Event] = {}
    for event in scene.failing:
        if (
            event.raised is not None
            and not event.raised.exception
            and event.role == "cascade"
            and event.rank is not None
        ):
            told.setdefault(event.rank, event)
    if not told or len(told) * 2 > len(scene.case.people.seen):
        return
    for rank, event in told.items():
        yield Vote(kind="exception", rank=rank, strength=1.0 / len(told),
                   text="prints a traceback, which is cut off, while others print none",
                   quotes=(scene.case.quote(event.hit),))  # fmt: skip


def _victims(scene: Scene, named: set[int]) -> Iterator[Vote]:
    """Vote against ranks that only tell of others: they lived on while something was wrong elsewhere."""
    told = {sender_of_too_much(scene)}
    for event in scene.failing:
        rank = event.rank
        if event.role != "cascade" or rank is None or rank in named or rank in told or event.id.startswith("exit."):
            continue
        if event.id == TOO_MUCH:
            told.add(rank)  # it may as well be its own tensor that has another size
        elif event.category != "other" and event.hit.about is None:
            told.add(rank)
            yield Vote(kind="victim", rank=rank, text=f"only tells of others: {event.title}",
                       quotes=(scene.case.quote(event.hit),))  # fmt: skip
