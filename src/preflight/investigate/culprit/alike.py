"""The same cause on many ranks: on all of them it has no culprit, on all of a node the node is it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite

from preflight.investigate.case.case import Event
from preflight.investigate.course.interrupted import interrupts_in
from preflight.investigate.culprit.exit_code import aborted, crashed_alike
from preflight.investigate.culprit.groups import NEARLY_ALL, Group, groups_of
from preflight.investigate.culprit.vote import Scene, Vote, before, from_dump, is_wait
from preflight.vocabulary.incident import Quote

OF_MUTE_ABORTS = 0.4
"""What it says that all aborted at once: watchdogs do so on all ranks, whoever it was for whom they waited."""


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for nobody where all ranks that speak name the same cause at the same time, else for the nodes they fill."""
    people = scene.case.people
    told = [event for event in scene.roots() if event.rank is None and event.category == "preemption"]
    alone = _nodes_told(scene, told)
    for node in alone:
        yield Vote(kind="accused", node=node, quotes=(scene.case.quote(told[0].hit),),
                   text=f"its agent was told to stop, and those of other nodes were not: {told[0].title}")  # fmt: skip
    if (
        told
        and not alone
        and not any(event.rank is not None for event in scene.roots())
        and not any(event.accused for event in scene.failing)
        and not _waited_before(scene, told[0])
    ):
        text = f"the launcher was told from outside: {told[0].title}"
        yield Vote(kind="common-cause", strength=0.7, text=text, quotes=(scene.case.quote(told[0].hit),))
    yield from _interrupted(scene)
    crashed = crashed_alike(scene)
    if crashed:
        # Why they aborted stands in lines that are not here, and one of them may have begun it.
        strength = OF_MUTE_ABORTS if aborted(scene, crashed) else 1.0
        yield Vote(kind="common-cause", strength=strength, text=f"all {len(crashed)} ranks ended by the same signal")
    groups = groups_of(scene)
    broken = _broken_alone(scene) if any(_is_numerical(group) for group in groups) else {}
    for rank, (step, quote) in broken.items():
        yield Vote(kind="root-event", rank=rank, strength=1.0 / len(broken), quotes=(quote,),
                   text=f"its own loss is no number at step {step:,}, while that of other ranks is one")  # fmt: skip
    for group in groups:
        if broken and _is_numerical(group):
            continue  # the others have from these what they average
        quotes = tuple(scene.case.quote(event.hit) for event in group.events[:2])
        if group.everybody:
            yield Vote(
                kind="common-cause",
                strength=group.share,
                text=f"{_all_of(group)} name the same cause at the same time: {group.title}",
                quotes=quotes,
            )
        for node in group.nodes:
            ranks = people.of_node(node)
            yield Vote(
                kind="whole-node",
                node=node,
                strength=1.0 / len(group.nodes),
                text=f"all {len(ranks)} ranks of it name the same cause, and those of other nodes do not: {group.title}",
                quotes=quotes,
            )


def _is_numerical(group: Group) -> bool:
    """Return whether all ranks are said to have numbers that are none."""
    return group.everybody and group.events[0].category == "numerical"


def _broken_alone(scene: Scene) -> dict[int, tuple[int, Quote]]:
    """Return the few ranks whose own loss is no number at the first step at which that of any is, with that step.

    A loss is that of a rank's own samples, before gradients are averaged; where it was averaged as well, all ranks have the same.
    A rank of which the loss is always the same has none of its own: stages before the last one of a pipeline fill in a number.
    """
    told: dict[int, dict[int, tuple[bool, Quote]]] = {}
    values: dict[int, set[float]] = {}
    for one in scene.case.steps:
        rank, loss = scene.case.people.placed(one.who, one.file)[0], one.values.get("loss")
        if rank is not None and one.step is not None and loss is not None:
            quote = Quote(scene.case.path(one.file), one.line, f"loss {loss:g} at step {one.step}")
            told.setdefault(one.step, {})[rank] = (isfinite(loss), quote)
            values.setdefault(rank, set()).add(loss if isfinite(loss) else inf)
    for step in sorted(told):
        wrong = {rank: (step, quote) for rank, (good, quote) in told[step].items() if not good}
        if wrong:
            own = {rank for rank in told[step] if rank in wrong or len(values[rank]) > 1}
            return wrong if 2 * len(wrong) <= len(own) else {}
    return {}


def _all_of(group: Group) -> str:
    """Return who is in a group of everybody; what one file holds without ranks is of as many processes as write into it."""
    return f"all {len(group.ranks)} ranks" if group.ranks else "all processes that write into the same file"


def _nodes_told(scene: Scene, told: Sequence[Event]) -> tuple[str, ...]:
    """Return the nodes whose agents were told to stop, where agents of other nodes speak as well and say nothing of it."""
    people = scene.case.people
    nodes = {event.node for event in told}
    agents = {one.node for one in people.files.values() if one.rank is None and one.local_rank is None}
    if not nodes or None in nodes:
        return ()
    spared = (agents & set(people.nodes)) - nodes
    return tuple(sorted(node for node in nodes if node)) if spared and nodes <= agents else ()


def _waited_before(scene: Scene, end: Event) -> bool:
    """Return whether ranks had waited in vain before a job was ended: it was ended because it hung."""
    waits = [event for event in scene.failing if event.role == "cascade" and is_wait(event) and not from_dump(event)]
    return any(
        before(event, end)
        or (event.hit.file == end.hit.file and event.hit.line < end.hit.line)
        # Of what stands without a time at the end of its own file, only what comes before it is known.
        or (event.hit.time_open and event.hit.file != end.hit.file and not before(end, event))
        for event in waits
    )


def _interrupted(scene: Scene) -> Iterator[Vote]:
    """Vote for nobody where all ranks were interrupted: a person or a scheduler did that, and no rank."""
    events = [event for event in interrupts_in(scene.failing) if event.rank is not None]
    ranks = {event.rank for event in events}
    if len(ranks) > 1 and len(ranks) >= NEARLY_ALL * len(scene.case.people.seen):
        text = f"all {len(ranks)} ranks were interrupted"
        yield Vote(kind="common-cause", text=text, quotes=tuple(scene.case.quote(event.hit) for event in events[:2]))
