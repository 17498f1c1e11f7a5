"""Tokens that a program reads one by one, in a loop of its own, with a loss for each: what the losses are to find."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from .graph import Graph

_LEAST_STEPS = 8
_MOST_STEPS = 512


class Steps(NamedTuple):
    """What was read, and what was to be found at each step: sequences, a column for each step; the number for nothing."""

    ids: Any
    goal: Any
    ignored: int


def stepwise(torch: Any, graph: Graph) -> Steps | None:
    """The tokens and targets of a loop in which each loss knows one token more than the loss before it.

    None where there is no such loop: where the first loss knows more than one token already, all may know their answers.
    """
    read = [(place, ids) for place, _ in _named(graph, "Embedding") if (ids := _row(graph, place, "_saved_indices"))]
    goals = [(place, ids) for place, _ in _named(graph, "NllLoss") if (ids := _row(graph, place, "_saved_target"))]
    if not _LEAST_STEPS <= len(read) == len(goals) or len({ids[0].shape for _, ids in (*read, *goals)}) != 1:
        return None
    if len({ids[0].device for _, ids in (*read, *goals)}) != 1:
        return None
    known = _known(graph, [place for place, _ in read])
    order = sorted(goals, key=lambda goal: known[goal[0]].bit_count())
    before, columns = 0, []
    for place, _ in order:
        new = known[place] & ~before
        if before & ~known[place] or new.bit_count() != 1:
            return None
        columns.append(read[new.bit_length() - 1][1][0])
        before = known[place]
    ignored = graph.number(order[0][0], "_saved_ignore_index", -100)
    return Steps(torch.stack(columns, 1), torch.stack([ids[0] for _, ids in order], 1), ignored)


def _named(graph: Graph, name: str) -> list[tuple[int, str]]:
    return list(islice(graph.named(name), _MOST_STEPS))


def _row(graph: Graph, place: int, word: str) -> tuple[Any] | None:
    """A whole number for each sequence, in a tuple: a tensor by itself is neither true nor false."""
    held = graph.held(place, word)
    if held is None or held.is_floating_point() or held.dim() not in (1, 2) or held.shape[1:] not in ((), (1,)):
        return None
    return (held.flatten(),)


def _known(graph: Graph, places: list[int]) -> list[int]:
    """Of each operation, which of some others it is computed from, as the bits of a number."""
    bits = {place: 1 << at for at, place in enumerate(places)}
    known: list[int] = []
    for place, below in enumerate(graph.below):
        found = bits.get(place, 0)
        for one in below:
            found |= known[one]
        known.append(found)
    return known
