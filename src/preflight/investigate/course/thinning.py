"""Fewer step lines for what only has to know where the run was: the first ones, the last ones, and some between."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.vocabulary.log import StepLine

# So many lines are looked at one by one.
MOST = 60_000
FEWEST_EACH = 12


def thinned(steps: Sequence[StepLine]) -> tuple[StepLine, ...]:
    """Return the steps, where there are very many fewer of them: of each writer as many, its last ones for the most part."""
    if len(steps) <= MOST:
        return tuple(steps)
    by: dict[tuple[int, int | None, int | None], list[int]] = {}
    for index, one in enumerate(steps):
        by.setdefault((one.file, one.who.rank, one.who.local_rank), []).append(index)
    each = max(MOST // len(by), FEWEST_EACH)
    kept: list[int] = []
    for indices in by.values():
        if len(indices) <= each:
            kept += indices
            continue
        tail = each // 2
        rest = indices[: len(indices) - tail]
        stride = len(rest) / (each - tail)
        kept += [rest[int(number * stride)] for number in range(each - tail)] + indices[-tail:]
    return tuple(steps[index] for index in sorted(kept))
