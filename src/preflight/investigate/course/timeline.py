"""The timeline: what happened in order of corrected time, alike lines together; and what was only a consequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from preflight.investigate.case.case import Case, Event
from preflight.investigate.cause.category import Decided
from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Culprit, Moment
from preflight.vocabulary.log import Hit

MOST = 200
_Writer = tuple[int, str, int | None, str | None, int | None]


def moments_of(case: Case, events: Iterable[Event]) -> tuple[Moment, ...]:
    """Return events as moments; those of one kind on many ranks are one."""
    alike: dict[tuple[str, str, int], list[Event]] = {}
    told = list(events)
    # What a code alone says, a signature has said of the same line already.
    signed = {(event.place, event.rank) for event in told if event.role == "root" and not event.id.startswith("exit.")}
    for event in told:
        if event.id.startswith("exit.") and (event.place, event.rank) in signed:
            continue
        code = event.title if event.id.startswith("exit.") else ""  # two codes are two ends
        alike.setdefault((event.id, code, event.attempt), []).append(event)
    lines = {(_writer(event.hit), event.hit.line) for event in case.events}
    kept = Counter(writer for writer, _ in lines)
    found = [_moment(case, group, kept) for group in alike.values()]
    found.sort(key=lambda moment: moment.time if moment.time is not None else float("inf"))
    return tuple(found[:MOST])


def _moment(case: Case, group: Sequence[Event], kept: Mapping[_Writer, int]) -> Moment:
    first = group[0]
    ranks = tuple(sorted({event.rank for event in group if event.rank is not None}))
    return Moment(
        text=first.title, role=first.role, rank=first.rank, node=first.node, ranks=ranks, time=first.time,
        time_error=first.error, step=first.step, count=_times(group, kept),
        quote=case.quote(first.hit), attempt=first.attempt or None,
    )  # fmt: skip


def _writer(hit: Hit) -> _Writer:
    """By whom and in which file a line was counted."""
    return hit.file, hit.signature, hit.who.rank, hit.who.node, hit.who.local_rank


def _times(group: Sequence[Event], kept: Mapping[_Writer, int]) -> int:
    """How often it was seen.

    Each of the lines that were kept bears the count of its writer over the whole file: where all of them were kept, those
    of this group (one attempt of several) are counted themselves.
    """
    own: dict[_Writer, dict[int, int]] = {}
    for event in group:
        own.setdefault(_writer(event.hit), {})[event.hit.line] = event.hit.times_seen
    total = 0
    for writer, lines in own.items():
        seen = max(lines.values())
        total += seen if seen > kept.get(writer, 0) else len(lines)
    return total


def timeline_of(case: Case, scenes: Sequence[Scene]) -> tuple[Moment, ...]:
    """Return everything that matters, in order."""
    kept = [event for scene in scenes for event in scene.case.events if event.role not in ("benign", "progress")]
    marked = [event for event in case.events if event.signature is not None and event.signature.marks is not None]
    places = {id(event) for event in kept}
    return moments_of(case, [*kept, *(event for event in marked if id(event) not in places)])


def consequences_of(scene: Scene, culprit: Culprit, decided: Decided) -> tuple[Moment, ...]:
    """Return what followed from it and needs no mending of its own."""
    leading = decided.leading
    # What others say of the one that began it followed from it, though nothing says more.
    apart = None if leading is not None and leading.role == "cascade" and culprit.ranks else leading
    followed = [
        event
        for event in scene.failing
        if event is not apart
        and (event.role in ("cascade", "teardown") or (culprit.ranks and event.rank not in (*culprit.ranks, None)))
    ]
    return moments_of(scene.case, followed)
