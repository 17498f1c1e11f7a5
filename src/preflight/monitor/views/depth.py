"""How deep a model is, as far as what is computed in it depends on that."""

from __future__ import annotations

import hashlib
import re
from math import inf

from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Run

_NUMBER = re.compile(r"\d+")
_WITH_ONE_BETWEEN = 3
_OF_A_LIST = re.compile(r"\*\.[^.*]+$")
"""A parameter of a layer that has no name but its number: its neighbors may be layers of another kind."""


def layers_of(run: Run) -> str:
    """What must be the same of two models for their layers to be used in the same way.

    Blocks that have parts with names are alike, however many there are, where there are several: a further one stands as
    those between the first and the last do. Of a single one nobody knows what a second would take from it, and in a list
    without names each place may have another part; there it is how many parameters there are, or which numbers these have.

    Args:
        run: The run.
    """
    return _known(run)[0]


def graph_of(run: Run, least: float) -> str:
    """The same for the graph of a loss.

    Args:
        run: The run.
        least: How many blocks it takes at least until a further one adds nothing to the graph (`blocks_for`).
    """
    told, fewest = _known(run)
    if fewest < least:
        return f"{sum(one.kind == 'parameter' for one in run.variables.values())} parameters"
    return told


def _known(run: Run) -> tuple[str, int]:
    known = run.variables.layers
    if known is None:
        known = run.variables.layers = _layers([one.name for one in run.variables.values() if one.kind == "parameter"])
    return known


def blocks_for(at: str, edge: str) -> float:
    """How many blocks it takes at least until this of a graph is the same with any further one.

    An operation without parameters is told at those that are nearest. Where such a one stands outside of blocks and takes what
    comes from them, the next one stands farther from what is outside, and so at some block's own parameters: at once where a
    block gives what its parameters take part in, and nobody knows when where operations lie between.

    Args:
        at: What the operation stands at.
        edge: What it takes, as the recorder tells it.
    """
    word, _, taken = edge.partition("<")
    _, _, where = taken.partition(" at ")
    _, direct, names = taken.partition("{")
    block = _block(names.rstrip("}") if direct else where)
    if not block or "{" in word or block == _block(at):
        return 0
    return _WITH_ONE_BETWEEN if direct else inf


def _block(at: str) -> str:
    """The block that the first of some parameters is in, without the place that it has in a list within that."""
    return _OF_A_LIST.sub("", at.partition(",")[0]).rpartition("*")[0]


def _layers(names: list[str]) -> tuple[str, int]:
    """What is told, and how many blocks there are of the kind of which there are fewest."""
    blocks: dict[str, set[tuple[str, ...]]] = {}
    lists: dict[str, set[str]] = {}
    for name in names:
        pattern, numbers = pattern_of(name), _NUMBER.findall(name)
        if _OF_A_LIST.search(pattern):
            lists.setdefault(pattern, set()).add(numbers.pop())
        if numbers:
            blocks.setdefault(pattern, set()).add(tuple(numbers))
    fewest = min(map(len, blocks.values()), default=0)
    if fewest < 2:
        return f"{len(names)} parameters", fewest
    told = repr(sorted((pattern, sorted(numbers)) for pattern, numbers in lists.items()))
    return "several" + (f" ({hashlib.blake2s(told.encode(), digest_size=4).hexdigest()})" if lists else ""), fewest
