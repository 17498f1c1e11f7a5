"""Finds ranks that stand where labels seldom do: at the ends of lines, as places in a grid, as a word before what one writer says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from preflight.source.logs.label_forms import style_for
from preflight.source.logs.learnt import BEHIND
from preflight.source.logs.prefixes import AT_END, COORDINATES, PLACED, SPOKEN, head_of

_SHARE = 0.8
_FEWEST = 4
_TRIED = 8
_FARTHEST = 80
_SPEAKS = re.compile(r"(?<![\w.=-])(?<!local )(?<!node )(?<!world )[Rr]ank[ =#](\d{1,7})(?= +[A-Za-z\[(])")
"""A word and a number that no mark closes; whatever the line says comes next."""
_THIRD = re.compile(r"(?<![A-Za-z0-9-])(?:PP|CP|[Ss]tage)[=:_]?0*[1-9]")
"""A later stage of a pipeline, or part of a sequence: beside a replica and its parts, a third way in which work is spread."""


def ranks_behind(lines: Sequence[str]) -> str:
    """Return the style of lines of which nearly all end with a rank, where several ranks say more than one line each."""
    if not any(AT_END.search(line) for line in lines[:_TRIED]):
        return ""
    said = _logged(lines)
    found = [int(match[1] or match[2]) for line in said if (match := AT_END.search(line))]
    several = 1 < len(set(found)) <= len(found) // 2
    return "behind" if several and len(found) >= _SHARE * len(said) else ""


def ranks_of_places(lines: Sequence[str]) -> str:
    """Return the style of lines of which nearly all name a replica and a place in it, where each place of a whole grid speaks.

    Ranks are counted through a replica first, as Megatron and DeepSpeed do; where there is a third way in which the work is spread,
    two of the places do not say a rank.
    """
    if not any(COORDINATES.search(line, 0, _FARTHEST) for line in lines[:_TRIED]):
        return ""
    said = _logged(lines)
    found = [(int(match[1]), int(match[2])) for line in said if (match := COORDINATES.search(line, 0, _FARTHEST))]
    if any(_THIRD.search(line, 0, _FARTHEST) for line in said):
        return ""
    replicas, places = (max(one[axis] for one in found) + 1 if found else 0 for axis in (0, 1))
    whole = replicas > 1 and len(set(found)) == replicas * places
    return f"{PLACED}{places}" if whole and len(found) >= max(_SHARE * len(said), _FEWEST) else ""


def ranks_spoken(lines: Sequence[str]) -> str:
    """Return the style of lines that nearly all say a rank first, behind what is known to stand before a text."""
    if sum(_SPEAKS.search(line, 0, _FARTHEST) is not None for line in lines[:_TRIED]) < _FEWEST:
        return ""
    said = _logged(lines)
    heads = [head_of(line) for line in said]
    found = sum(head.who.rank is None and SPOKEN.match(line, head.end) is not None
                for line, head in zip(said, heads, strict=True))  # fmt: skip
    return "spoken" if found >= max(_SHARE * len(said), _FEWEST) else ""


def rank_of_one(lines: Sequence[str]) -> str:
    """Return the style of lines of one writer that says its rank before all else, with no mark behind the number; else nothing."""
    if not any(_SPEAKS.search(line, 0, _FARTHEST) for line in lines[:_TRIED]):
        return ""
    said = _logged(lines)
    found = [(line, match) for line in said if (match := _SPEAKS.search(line, 0, _FARTHEST))]
    if len(found) < max(_SHARE * len(said), _FEWEST) or len({match[1] for _, match in found}) > 1:
        return ""
    line, match = found[0]
    style = style_for(line, match.start(1), "rank", None)
    form = re.compile(style.partition(":")[2])
    return style if sum(form.match(one) is not None for one in said) >= _SHARE * len(said) else ""


def _logged(lines: Sequence[str]) -> list[str]:
    """Return the lines before which a logger may have put something."""
    return [line for line in lines if not BEHIND.match(line)]
