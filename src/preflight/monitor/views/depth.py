"""How deep a model is, as far as what is computed in it depends on that."""

from __future__ import annotations

import hashlib
import re

from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Run

_NUMBER = re.compile(r"\d+")
_OF_A_LIST = re.compile(r"\*\.[^.*]+$")
"""A parameter of a layer that has no name but its number: its neighbors may be layers of another kind."""


def layers_of(run: Run, counted: bool = False) -> str:
    """What must be the same of two models for their layers to be used in the same way.

    Blocks that have parts with names are alike, however many there are, where there are several: a further one stands as
    those between the first and the last do. Of a single one nobody knows what a second would take from it, and in a list
    without names each place may have another part; there it is how many parameters there are, or which numbers these have.

    Args:
        run: The run.
        counted: Whether it is how many parameters there are in any case.
    """
    if counted:
        return f"{sum(one.kind == 'parameter' for one in run.variables.values())} parameters"
    known = run.variables.layers
    if known is None:
        known = run.variables.layers = _layers([one.name for one in run.variables.values() if one.kind == "parameter"])
    return known


def crosses_blocks(at: str, edge: str) -> bool:
    """Whether an operation without parameters that stands elsewhere takes what comes from blocks.

    It is told at the parameters that are nearest, and from some block on these may be the block's own: those before it grow
    farther with each.

    Args:
        at: What the operation stands at.
        edge: What it takes, as the recorder tells it.
    """
    word, _, taken = edge.partition("<")
    _, _, where = taken.partition(" at ")
    return bool(_block(where)) and "{" not in word and _block(at) != _block(where)


def _block(at: str) -> str:
    """The block that the first of some parameters is in, without the place that it has in a list within that."""
    return _OF_A_LIST.sub("", at.partition(",")[0]).rpartition("*")[0]


def _layers(names: list[str]) -> str:
    blocks: dict[str, set[tuple[str, ...]]] = {}
    lists: dict[str, set[str]] = {}
    for name in names:
        pattern, numbers = pattern_of(name), _NUMBER.findall(name)
        if _OF_A_LIST.search(pattern):
            lists.setdefault(pattern, set()).add(numbers.pop())
        if numbers:
            blocks.setdefault(pattern, set()).add(tuple(numbers))
    if not blocks or min(map(len, blocks.values())) < 2:
        return f"{len(names)} parameters"
    told = repr(sorted((pattern, sorted(numbers)) for pattern, numbers in lists.items()))
    return "several" + (f" ({hashlib.blake2s(told.encode(), digest_size=4).hexdigest()})" if lists else "")
