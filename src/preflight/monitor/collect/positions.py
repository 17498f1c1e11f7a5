"""Tables of positions that are added to one of tokens, and at which rows they are read."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from .graph import Graph

MOST_READ = 64
"""Operations of a kind that are looked at."""
LEAST_SAMPLES = 4


class Table(NamedTuple):
    """A look-up of rows of a table for each position of each sequence."""

    place: int
    ids: Any
    rows: int
    padding: int


def placed(torch: Any, graph: Graph, table: Table) -> bool:
    """Whether a table of positions is added to one of tokens, in a way that is looked at."""
    return crossed(torch, graph, table) is not None or lost(graph, table) is not None


def crossed(torch: Any, graph: Graph, table: Table) -> Any:
    """Whether a table that is added to one of tokens is read at a row for each sample, counted from the first."""
    batch, length = table.ids.shape
    if batch < LEAST_SAMPLES or batch == length:
        return None
    for node, _ in islice(graph.named("Embedding"), MOST_READ):
        ids = graph.held(node, "_saved_indices")
        if ids is None or tuple(ids.shape) not in ((batch,), (batch, 1)) or ids.device != table.ids.device:
            continue
        rows = graph.number(node, "_saved_weight_sym_argsize_0", 0)
        if rows > batch and rows >= length and _added(graph, node, table.place):
            return (ids.flatten() == torch.arange(batch, device=ids.device)).all().float()
    return None


def lost(graph: Graph, table: Table) -> Any:
    """Whether a table with a row for each position, added to one of tokens, is read at its first one by all of them."""
    batch, length = table.ids.shape
    for node, _ in islice(graph.named("Embedding"), MOST_READ):
        ids = graph.held(node, "_saved_indices") if node != table.place and batch > 1 else None
        if ids is None or tuple(ids.shape) not in ((length,), (1, length)) or ids.device != table.ids.device:
            continue
        rows = graph.number(node, "_saved_weight_sym_argsize_0", 0)
        if rows >= length and _added_alone(graph, node, table.place):
            return (ids == 0).all().float()
    return None


def _added(graph: Graph, one: int, other: int) -> bool:
    """Whether what two operations give is added, as it is or with one of them laid out for the other."""
    return _sum(graph, one, other) >= 0


def _added_alone(graph: Graph, one: int, other: int) -> bool:
    """The same, where nothing is added to the sum at once that comes from no input: a constant, a parameter, a table."""
    place = _sum(graph, one, other)
    if place < 0:
        return False
    sums = {place}  # the sum, and what keeps it as it is for the most part
    for above in range(place + 1, len(graph.nodes)):
        if graph.names[above] in ("NativeDropout", "NativeLayerNorm", "Mul") and sums & set(graph.below[above][:1]):
            sums.add(above)
        if graph.names[above] == "Add" and sums & set(graph.below[above]):
            beside = [one for one in graph.below[above] if one not in sums]
            if not beside or any(_given(graph, one) for one in beside):
                return False
    return True


def _sum(graph: Graph, one: int, other: int) -> int:
    for place, _ in graph.named("Add"):
        below = {
            graph.below[at][0] if graph.names[at] in ("Unsqueeze", "Mul", "Transpose") and graph.below[at] else at
            for at in graph.below[place]
        }
        if {one, other} <= below:
            return place
    return -1


def _given(graph: Graph, place: int) -> bool:
    """Whether an operation gives a parameter, or rows of a table, however these are laid out."""
    while len(graph.below[place]) == 1 and graph.names[place] != "Embedding":
        place = graph.below[place][0]
    return graph.names[place] in ("Embedding", "AccumulateGrad")
