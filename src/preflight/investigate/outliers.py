"""Which rank, or which link, is not like the others: robust distances of medians, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from preflight.vocabulary.finding import Evidence, Finding, Location
from preflight.vocabulary.live import Measurement

CODES = {"probe.outlier": "PRB101", "probe.wrong": "PRB102", "probe.timeout": "PRB103", "probe.failed": "PRB104"}
WORSE = 1.3
"""An outlier is worse than the median of the others by so much ..."""
SIGMAS = 6.0
"""... and by so many of their robust standard deviations: of 16 healthy ranks with normal noise fewer than one comparison in
ten thousand reaches that; see tests."""
FEWEST = 3
FAR = 2.0
"""Of two ranks, one has to cost so many times what the other does."""


def times(factor: float) -> str:
    """Return how many times, with no more figures than mean something: ``1.4 times``, ``10,900 times``."""
    if factor < 100:
        return f"{factor:.1f} times"
    figures = len(str(int(factor))) - 3
    return f"{round(factor, -figures):,.0f} times"


def findings_of(measured: Sequence[Measurement]) -> list[Finding]:
    """Return what the measurements of all ranks come to."""
    found = [one for row in measured for one in _of_one(row)]
    seen = [row for row in measured if row.outcome == "done" and row.value is not None and row.rank is not None]
    for name in dict.fromkeys(row.probe for row in seen):
        rows = [row for row in seen if row.probe == name]
        # What ranks do together takes all of them the same time, and what is derived from another value says nothing new.
        alone = [
            row for row in rows if row.peer is None and not row.details.get("together") and "of" not in row.details
        ]
        found += _ranks(name, [row for row in alone if "shared" not in row.details])
        found += _nodes(name, [row for row in alone if "shared" in row.details])
        found += _links(name, [row for row in rows if row.peer is not None])
    return found


def _links(name: str, rows: Sequence[Measurement]) -> list[Finding]:
    by_link: dict[str, list[Measurement]] = {}
    for row in rows:
        by_link.setdefault(row.name, []).append(row)
    # What both ends say of a link is one thing, seen twice: the better of the two.
    best = {link: min(ends, key=_cost) for link, ends in by_link.items()}
    slow = outliers({link: _cost(row) for link, row in best.items()}, {link: _least(row) for link, row in best.items()})
    return [
        _slow(
            f"{link} is {times(factor)} slower than the others ({name})",
            best[str(link)],
            None,
        )
        for link, factor in slow
    ]


def _ranks(name: str, rows: Sequence[Measurement]) -> list[Finding]:
    """Return the ranks that are slow in a probe as a whole, and those that are slow in one thing only."""
    tables: dict[str, dict[int, Measurement]] = {}
    for row in rows:
        tables.setdefault(row.name, {})[row.rank or 0] = row
    slow = {
        what: dict(outliers({rank: _cost(row) for rank, row in table.items()},
                            {rank: _least(row) for rank, row in table.items()}))
        for what, table in tables.items()
    }  # fmt: skip
    whole = dict(outliers(_together(tables))) if len(tables) > 1 else {}
    found = []
    for rank, factor in whole.items():
        first = next(table[int(rank)] for table in tables.values() if rank in table)
        said = f"rank {rank} is {times(factor)} slower than the others in {name} as a whole ({', '.join(tables)})"
        found.append(_slow(said, first, int(rank)))
    found += [one for what, table in tables.items() if (one := _of_two(name, what, table)) is not None]
    for what, ranks in slow.items():
        for rank, factor in ranks.items():
            if rank not in whole:
                said = f"rank {rank} is {times(factor)} slower than the others in {what} ({name})"
                found.append(_slow(said, tables[what][int(rank)], int(rank)))
    return found


def _nodes(name: str, rows: Sequence[Measurement]) -> list[Finding]:
    """Return the nodes that are slow in what their ranks share: who of a node had a bad turn says nothing of that rank."""
    tables: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        table = tables.setdefault(row.name, {})
        node = row.node or ""
        table[node] = min((table.get(node, row), row), key=_cost)
    found = []
    for what, table in tables.items():
        slow = outliers({at: _cost(row) for at, row in table.items()}, {at: _least(row) for at, row in table.items()})
        found += [
            _slow(f"node {at} is {times(factor)} slower than the others in {what} ({name})", table[str(at)], None)
            for at, factor in slow
        ]
        found += [one] if (one := _of_two(name, what, table, "node")) is not None else []
    return found


def _of_two(name: str, what: str, table: Mapping[Any, Measurement], kind: str = "rank") -> Finding | None:
    """Return that two are far apart, where there are no others: which of them is as it should be cannot be told."""
    if len(table) != FEWEST - 1:
        return None
    fast, slow = sorted(table, key=lambda rank: _cost(table[rank]))
    factor = _cost(table[slow]) / max(_cost(table[fast]), 1e-300)
    if factor < FAR or _least(table[slow]) < WORSE * _most(table[fast]):
        return None
    said = f"{kind} {slow} is {times(factor)} slower than {kind} {fast} in {what} ({name}); of two alone nothing tells which is usual"
    return structs.replace(_slow(said, table[slow], slow if kind == "rank" else None), confidence="possible")


def few(ranks: int) -> tuple[str, ...]:
    """Return what has to be said where there are too few ranks to tell which of them is unlike the others."""
    if not 1 < ranks < FEWEST:
        return ()
    return (f"{ranks} ranks: who of fewer than {FEWEST} is the slow one cannot be told",)


def _together(tables: Mapping[str, Mapping[int, Measurement]]) -> dict[int, float]:
    """Return for each rank the median, over what was measured, of its cost against the median of all ranks."""
    from statistics import median

    ratios: dict[int, list[float]] = {}
    for table in tables.values():
        middle = median(_cost(row) for row in table.values())
        for rank, row in table.items():
            ratios.setdefault(rank, []).append(_cost(row) / max(middle, 1e-300))
    return {rank: median(values) for rank, values in ratios.items() if len(values) == len(tables)}


def _cost(row: Measurement) -> float:
    """Return a value that is larger where it is worse."""
    value = row.value or 0.0
    return value if row.better == "smaller" else 1.0 / max(value, 1e-300)


def _most(row: Measurement) -> float:
    """Return the cost at the worse end of its interval."""
    end = row.high if row.better == "smaller" else row.low
    if end is None:
        return _cost(row)
    return end if row.better == "smaller" else 1.0 / max(end, 1e-300)


def _least(row: Measurement) -> float:
    """Return the cost at the better end of its interval."""
    end = row.low if row.better == "smaller" else row.high
    if end is None:
        return _cost(row)
    return end if row.better == "smaller" else 1.0 / max(end, 1e-300)


def outliers(costs: Mapping[Any, float], least: Mapping[Any, float] | None = None) -> list[tuple[int | str, float]]:
    """Return who costs more than the others, and by which factor; nobody below three, where it cannot be told who it is.

    Args:
        costs: By rank or link; larger is worse.
        least: The better end of each cost's interval, which has to be worse than what the others have, too.
    """
    from statistics import median

    logs = {key: math.log(max(value, 1e-300)) for key, value in costs.items()}
    if len(logs) < FEWEST:
        return []
    found: list[tuple[int | str, float]] = []
    for key, value in logs.items():
        others = [other for name, other in logs.items() if name != key]
        middle = median(others)
        spread = 1.4826 * median(abs(other - middle) for other in others)
        sure = least is None or math.log(max(least[key], 1e-300)) > middle
        if sure and value - middle > max(math.log(WORSE), SIGMAS * spread):
            found.append((key, math.exp(value - middle)))
    # Where more than a third stand out, there is no usual value that they stand out from.
    return sorted(found, key=lambda item: -item[1]) if len(found) * 3 <= len(logs) else []


def _slow(message: str, row: Measurement, rank: int | None) -> Finding:
    evidence = (
        Evidence(what=f"{row.name}, median of {row.repeats}", value=row.value, unit=row.unit, source="measured"),
    )
    where = Location(rank=rank, node=row.node)
    return Finding("probe.outlier", CODES["probe.outlier"], "warning", "likely", message, where, evidence=evidence)


def _of_one(row: Measurement) -> list[Finding]:
    """Return what one measurement comes to, whatever the others say."""
    where = Location(rank=row.rank, node=row.node)
    wrong = row.details.get("wrong")
    if isinstance(wrong, int) and wrong:
        many = "" if wrong == 1 else "s"
        of_memory = f"word{many} of memory did not hold what was written"
        what = of_memory if row.probe == "memory" else f"value{many} came back wrong"
        return [
            Finding(
                "probe.wrong",
                CODES["probe.wrong"],
                "error",
                "certain",
                f"{wrong} {what} ({row.probe}: {row.name})",
                where,
            )
        ]
    if row.outcome in ("timeout", "failed"):
        rule = f"probe.{row.outcome}"
        said = f"{row.probe}: {row.name} {'did not end' if row.outcome == 'timeout' else 'failed'}: {row.reason}"
        return [Finding(rule, CODES[rule], "error", "certain", said, where)]
    return []
