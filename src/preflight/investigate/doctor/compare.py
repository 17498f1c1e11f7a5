"""What is not the same on all ranks. The value of few is the suspect; where nobody is in the majority, that is said."""

from __future__ import annotations

from collections.abc import Mapping

from preflight.investigate.doctor.keys import KEYS, Key, key_of
from preflight.investigate.doctor.snapshot import Snapshot
from preflight.vocabulary.finding import SEVERITY_ORDER, Scalar
from preflight.vocabulary.live import Difference

ABSENT = "not there"
FAR = 6.0
"""An amount is told when it is so many robust standard deviations from the others' median ..."""
APART = 0.25
"""... and differs from it by so much of it: free memory of healthy nodes differs by some per cent."""


def compare(snapshots: Mapping[int, Snapshot]) -> tuple[Difference, ...]:
    """Return what differs, the weightiest first.

    Args:
        snapshots: By rank.
    """
    names = sorted({name for snapshot in snapshots.values() for name in snapshot.values})
    found = []
    for name in names:
        key = key_of(name)
        values = {rank: snapshot.values.get(name) for rank, snapshot in snapshots.items()}
        difference = _difference(name, key, values)
        if difference is not None:
            found.append(difference)
    return tuple(sorted(found, key=lambda one: (SEVERITY_ORDER[one.weight], _order(one.key), one.key)))


def _order(name: str) -> int:
    """Return the place of a name's key in the table: versions before limits before machines."""
    return KEYS.index(key_of(name))


def _difference(name: str, key: Key, values: Mapping[int, Scalar]) -> Difference | None:
    if key.kind == "own" or len(values) < 2:
        return None
    numbers = {
        rank: float(value)
        for rank, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if key.kind in ("amount", "counter") and len(numbers) == len(values):
        return _amounts(name, key, numbers)
    by_value: dict[str, list[int]] = {}
    for rank, value in values.items():
        by_value.setdefault(ABSENT if value is None else str(value), []).append(rank)
    if len(by_value) < 2 or (key.kind in ("amount", "counter") and ABSENT not in by_value):
        return None
    (usual, ranks), *rest = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0] == ABSENT, item[0]))
    reason = key.reason
    if len(rest[0][1]) == len(ranks):
        reason = f"no value is in the majority{': ' if reason else ''}{reason}"
    return Difference(
        key=name, usual=usual, usual_ranks=len(ranks), weight=key.weight, reason=reason,
        unusual={value: tuple(sorted(others)) for value, others in rest},
    )  # fmt: skip


def _amounts(name: str, key: Key, numbers: Mapping[int, float]) -> Difference | None:
    """Return the ranks whose amount is far from the median; the spread is that of all (median of deviations)."""
    from statistics import median

    middle = median(numbers.values())
    spread = 1.4826 * median(abs(value - middle) for value in numbers.values())
    least = APART * abs(middle) if key.kind == "amount" else 0.0
    far = {
        rank: value
        for rank, value in numbers.items()
        if abs(value - middle) > max(FAR * spread, least, 1e-12) and (key.kind == "amount" or value > middle)
    }
    if not far or (len(numbers) < 3 and key.kind == "amount"):
        return None
    by_value: dict[str, list[int]] = {}
    for rank, value in far.items():
        by_value.setdefault(_shown(value), []).append(rank)
    return Difference(
        key=name, usual=_shown(middle), usual_ranks=len(numbers) - len(far), weight=key.weight, reason=key.reason,
        unusual={value: tuple(sorted(ranks)) for value, ranks in by_value.items()},
    )  # fmt: skip


def _shown(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.4g}"


def suspects(differences: tuple[Difference, ...], nodes: Mapping[int, str | None]) -> list[tuple[int, float]]:
    """Return ranks by how much sets them apart, the most suspicious first; an error counts as ten warnings.

    A difference that half of all ranks show speaks against nobody.
    """
    weights = {"error": 10.0, "warning": 1.0, "info": 0.1}
    score: dict[int, float] = {}
    for one in differences:
        odd = [rank for ranks in one.unusual.values() for rank in ranks]
        if len(odd) * 2 < len(nodes):
            for rank in odd:
                score[rank] = score.get(rank, 0.0) + weights[one.weight]
    return sorted(score.items(), key=lambda item: (-item[1], item[0]))
