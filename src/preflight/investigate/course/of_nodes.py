"""What a node's own log says of the node, where the run that was on it came to its end: it ended nothing."""

from __future__ import annotations

from preflight.investigate.case.case import Case, Event

_OF_NODES = ("kernel", "device")
"""Files that are about a machine, and not about a run."""
_KILLS = ("oom-kill", "segfault")
"""What ends a process: where it is one of the run's, the run did not come to its end with it."""


def without_words_of_nodes(case: Case, failing: list[Event], *, ended: bool, slower: bool) -> list[Event]:
    """Return nothing where only logs of nodes tell of trouble, and it ended nothing; where steps became slower, it may be why.

    Either the run says that it is done, and all who tell steps told the last one: a kernel counts the seconds since its start, and
    what it says may be days old, or of another job. Or steps are told, and a device and its job survive what is told.
    """
    if not failing or slower or any(ending.code for ending in case.endings):
        return failing
    if ended and _all_came_to_the_last_step(case):
        return [] if all(_of_a_node_alone(case, event) for event in failing) else failing
    passing = bool(case.steps) and all(_passes(case, event) for event in failing)
    return [] if passing else failing


def _passes(case: Case, event: Event) -> bool:
    """Return whether an event is what a machine says of itself, and is survived."""
    told = event.node_event or case.of_nodes.get(event.place)
    return told is not None and not told.fatal and told.kind not in _KILLS and _of_a_node_alone(case, event)


def _of_a_node_alone(case: Case, event: Event) -> bool:
    """Return whether an event is what a machine says of itself, in a file of its own, and ended no process of the run."""
    file = case.files.get(event.hit.file)
    if file is None or file.kind not in _OF_NODES:
        return False
    told = event.node_event or case.of_nodes.get(event.place)
    return told is None or told.kind not in _KILLS or told.pid not in {pid for _, pid in case.people.by_pid}


def _all_came_to_the_last_step(case: Case) -> bool:
    """Return whether all who tell steps told the last one: a rank that was left behind did not come to the end."""
    last: dict[int | None, int] = {}
    for one in case.steps:
        if one.step is not None:
            rank = case.people.rank_of(one.who, one.file)
            last[rank] = max(one.step, last.get(rank, one.step))
    return len(set(last.values())) == 1
