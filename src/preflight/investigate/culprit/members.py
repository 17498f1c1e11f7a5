"""Who left out a call of a group of some ranks: those who wait in it stand at its line, and the one that is missing went past it.

Groups of some ranks are those of a mesh as a rule: each has as many members as every other one, at equal distances, and together
they are all ranks. Often no more than one such group has all who wait in the call for members, and one rank beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from preflight.investigate.case.case import Event
from preflight.investigate.culprit.vote import Scene, Vote, from_dump
from preflight.investigate.flight.frames import is_own
from preflight.vocabulary.log import Frame

_GROUP = re.compile(r"\b(?:process_)?group ?= ?([\w.\[\]\"']+)( if )?")
_WORLD = re.compile(r"(?i)^none\b|world")
_INNER = re.compile(r"(?i)(?:^|[^a-z])(?:tp|mp|sp|cp|rows?|inner|intra|tensor|model|local|shard)(?![a-z])|^tp")
_OUTER = re.compile(
    r"(?i)(?:^|[^a-z])(?:dp|ddp|col|cols|columns?|outer|inter|data|replica|replicate|cross)(?![a-z])|^dp"
)
"""What programs call groups of neighbours, and groups of ranks that are as far from each other as may be."""
_PAIR = re.compile(r"\b(?:batch_isend_irecv|i?send|i?recv)\(")
EITHER = "either"
"""What is told of a group that a condition on the line chooses."""
ONE_OF_TWO = 0.5
FEW = 2


class Mesh(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of so many ranks at such a distance, and the rank that is missing among those of one group that wait."""

    distance: int
    size: int
    missing: int


class Stood(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rank stood when it complained of the others; ``frames`` are those of the program, from the outermost."""

    event: Event
    frames: tuple[Frame, ...]

    @property
    def place(self) -> tuple[str, int | None]:
        """The line of the program at which it called."""
        return self.frames[-1].path, self.frames[-1].line


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the rank that went past a call of a group, where the others of the group wait in it."""
    found = left_out(scene)
    for rank, (waiting, stood) in found.items():
        path, line = stood.place
        named = ", ".join(map(str, waiting))
        yield Vote(kind="left-out", rank=rank, strength=1.0 if len(found) == 1 else ONE_OF_TWO, shared=len(found) > 1,
                   quotes=(scene.case.quote(stood.event.hit),),
                   text=f"went past {path}:{line}, where rank{'s' if len(waiting) > 1 else ''} {named} of its group waited")  # fmt: skip


def left_waiting(scene: Scene) -> frozenset[int]:
    """Return the ranks that wait in a call of a group which one of its members has left out: that they are behind is no fault."""
    return frozenset(rank for waiting, _ in left_out(scene).values() for rank in waiting)


def left_out(scene: Scene) -> dict[int, tuple[tuple[int, ...], Stood]]:
    """Return the one or two ranks that may have left out a call, with those that wait in it; all ranks have to tell where they stood."""
    if scene.case.left_out is None:
        scene.case.left_out = _left_out(scene)
    return scene.case.left_out


def _left_out(scene: Scene) -> dict[int, tuple[tuple[int, ...], Stood]]:
    world, stood = scene.case.people.world or 0, standing(scene)
    if len(stood) != world or set(stood) != set(range(world)) or any(event.rank is not None for event in scene.roots()):
        return {}
    at: dict[tuple[str, int | None], list[int]] = {}
    for rank in sorted(stood):
        at.setdefault(stood[rank].place, []).append(rank)
    names = {place: group_named(stood[waiting[0]].frames[-1]) for place, waiting in at.items()}
    meshes = {place: _meshes(waiting, world) for place, waiting in at.items() if names[place]}
    steps = last_steps(scene)
    for place, waiting in at.items():
        if place in meshes:
            beside = [one for other, found in meshes.items() if other != place for one in _by_name(found, names[other])]
            may = _missing(meshes[place], beside, names[place])
        else:
            may = _partner(stood, waiting, world, steps)
        may = {rank for rank in may if all(further_on(stood, steps, rank, one) for one in waiting)}
        if 0 < len(may) <= FEW:
            return dict.fromkeys(sorted(may), (tuple(waiting), stood[waiting[0]]))
    return {}


def standing(scene: Scene) -> dict[int, Stood]:
    """Return where each rank stood that complains of the others, by its first complaint."""
    raised = {(one.hit.file, one.hit.line): one for one in scene.case.raised}
    found: dict[int, Stood] = {}
    for event in scene.failing:
        if event.role != "cascade" or event.rank is None or event.rank in found or from_dump(event):
            continue
        one = event.raised or raised.get(event.place)
        frames = tuple(frame for frame in one.frames if is_own(frame)) if one is not None else ()
        if frames and frames[-1].line is not None:
            found[event.rank] = Stood(event=event, frames=frames)
    return found


def group_named(frame: Frame) -> str:
    """Return the group of some ranks that a call names; empty where it names none, or that of all ranks."""
    named = _GROUP.search(frame.code)
    if named is not None and named[2]:
        return EITHER
    return "" if named is None or _WORLD.search(named[1]) else named[1]


def further_on(stood: Mapping[int, Stood], steps: Mapping[int, int], rank: int, other: int) -> bool:
    """Return whether one rank had come further in the program than another: to a later step, or in the same one to a later line."""
    if rank in steps and other in steps and steps[rank] != steps[other]:
        return steps[rank] > steps[other]
    for mine, theirs in zip(stood[rank].frames, stood[other].frames, strict=False):
        if (mine.path, mine.function) != (theirs.path, theirs.function):
            return False
        if mine.line != theirs.line:
            return (mine.line or 0) > (theirs.line or 0)
    return False


def last_steps(scene: Scene) -> dict[int, int]:
    """Return the last step that each rank tells."""
    last: dict[int, int] = {}
    for one in scene.case.steps:
        rank = scene.case.people.rank_of(one.who, one.file)
        if rank is not None and one.step is not None:
            last[rank] = max(one.step, last.get(rank, one.step))
    return last


def _meshes(waiting: Sequence[int], world: int) -> list[Mesh]:
    """Return the meshes of which one group has all of these as members, and one rank beside them."""
    size, first = len(waiting) + 1, waiting[0]
    if size == world or world % size:  # that of all ranks is no group of some
        return []
    found = []
    for distance in (one for one in range(1, world // size + 1) if world % (one * size) == 0):
        base = first - first // distance % size * distance
        group = {base + distance * place for place in range(size)}
        if set(waiting) < group:
            found.append(Mesh(distance=distance, size=size, missing=next(iter(group - set(waiting)))))
    return found


def _missing(meshes: Sequence[Mesh], beside: Sequence[Mesh], name: str) -> set[int]:
    """Return who may be missing in the groups of these meshes; groups in which others wait are of another direction, which has to fit."""
    fit = [one for one in meshes if not beside or any(_fit(one, other) for other in beside)]
    return {one.missing for one in _by_name(fit, name)}


def _by_name(meshes: Sequence[Mesh], name: str) -> Sequence[Mesh]:
    """Return those of the meshes that lie in the direction that the name of a group tells; all where it tells none."""
    distances = [one.distance for one in meshes]
    inner, outer = bool(_INNER.search(name)), bool(_OUTER.search(name))
    if inner == outer or not distances:
        return meshes
    return [one for one in meshes if one.distance == (min(distances) if inner else max(distances))]


def _fit(one: Mesh, other: Mesh) -> bool:
    """Return whether two meshes can be directions of one: a step of the outer one is over whole groups of the inner one."""
    inner, outer = sorted((one, other), key=lambda mesh: mesh.distance)
    return outer.distance % (inner.distance * inner.size) == 0


def _partner(stood: Mapping[int, Stood], waiting: Sequence[int], world: int, steps: Mapping[int, int]) -> set[int]:
    """Return the neighbours of the only rank that waits in a call of one to another, where all others have come to calls of all."""
    mine = waiting[0]
    others = [rank for rank in stood if rank != mine]
    if len(waiting) > 1 or not _PAIR.search(stood[mine].frames[-1].code):
        return set()
    if any(_PAIR.search(stood[rank].frames[-1].code) or not further_on(stood, steps, rank, mine) for rank in others):
        return set()
    return {mine - 1, mine + 1} & set(range(world))
