"""The clocks of the nodes, compared by what they all must have seen at the same time.

Ranks leave a synchronising collective together, so the lines of one step, of one barrier or of one committed checkpoint
were printed at the same moment whatever their times say. The offsets of the nodes are those that fit all such pairs best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from preflight.investigate.case.people import People
from preflight.vocabulary.incident import Clock
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Signature

# The last markers count: clocks drift, and what has to be put into order lies at the end.
MOST_MARKERS = 128
FEWEST_MARKERS = 3
# So many nodes are compared each with each other; of more, each with this many neighbours and with the reference.
ALL_PAIRS = 32
NEIGHBOURS = 4
# Two-sided normal quantile of 95 %.
Z = 1.96
# For a median of n differences the error is that of a mean times this.
MEDIAN = 1.2533
SCALE = 1.4826
_WHOLE = 1e-3

Key = tuple[str, int, int]


def clocks_of(reading: Reading, people: People, signatures: Mapping[str, Signature]) -> dict[str, Clock]:
    """Return by how much each node's clock is ahead of the reference, where markers tell it."""
    if len(people.nodes) < 2:
        return {}
    times = _markers(reading, people, signatures)
    nodes = sorted(times, key=lambda node: (node != people.node_of.get(0), -len(times[node]), node))
    if len(nodes) < 2:
        return {}
    resolution = {node: _resolution(list(times[node].values())) for node in nodes}
    pairs: dict[tuple[str, str], tuple[float, float, int]] = {}
    for one, other in _neighbours(nodes):
        found = _difference(times[one], times[other], max(resolution[one], resolution[other]))
        if found is not None:
            pairs[one, other] = found
    return _solved(nodes, pairs)


def _markers(reading: Reading, people: People, signatures: Mapping[str, Signature]) -> dict[str, dict[Key, float]]:
    """Return the time of each marker on each node: the median over its ranks."""
    from statistics import median

    found: dict[str, dict[Key, list[float]]] = {}
    seen: dict[tuple[object, ...], int] = {}

    def add(node: str | None, teller: object, name: str, number: int, time: float | None) -> None:
        if node is None or time is None:
            return
        # A step that is run again after a restart is another marker.
        again = seen[node, teller, name, number] = seen.get((node, teller, name, number), -1) + 1
        found.setdefault(node, {}).setdefault((name, number, again), []).append(time)

    for step in reading.steps:
        if step.step is not None:
            add(people.placed(step.who, step.file)[1], (step.file, step.who.rank), "step", step.step, step.time)
    counts: dict[tuple[object, ...], int] = {}
    for hit in reading.hits:
        signature = signatures.get(hit.signature)
        if signature is None or signature.marks not in ("barrier", "checkpoint"):
            continue
        number = hit.fields.get("step")
        teller = (hit.file, hit.who.rank, hit.signature)
        counts[teller] = counts.get(teller, 0) + 1
        known = number if isinstance(number, int) else counts[teller]
        add(people.node_of_who(hit.who, hit.file), teller, hit.signature, known, hit.time)
    return {node: {key: median(told) for key, told in markers.items()} for node, markers in found.items()}


def _resolution(times: Sequence[float]) -> float:
    """Return the finest difference that the times of a node tell: 1 s where all are whole seconds."""
    if all(abs(time - round(time)) < _WHOLE for time in times):
        return 1.0
    return 0.001


def _neighbours(nodes: Sequence[str]) -> list[tuple[str, str]]:
    if len(nodes) <= ALL_PAIRS:
        return [(one, other) for at, one in enumerate(nodes) for other in nodes[at + 1 :]]
    found = {(nodes[0], other) for other in nodes[1:]}
    for at in range(len(nodes)):
        for ahead in range(1, NEIGHBOURS + 1):
            if at + ahead < len(nodes):
                found.add((nodes[at], nodes[at + ahead]))
    return sorted(found)


def _difference(one: dict[Key, float], other: dict[Key, float], resolution: float) -> tuple[float, float, int] | None:
    """Return by how much the second clock is ahead of the first, the standard error, and the number of markers."""
    from statistics import fmean, median

    shared = sorted(one.keys() & other.keys(), key=lambda key: one[key])[-MOST_MARKERS:]
    if len(shared) < FEWEST_MARKERS:
        return None
    gaps = [other[key] - one[key] for key in shared]
    middle = median(gaps)
    spread = SCALE * median([abs(gap - middle) for gap in gaps])
    near = [gap for gap in gaps if abs(gap - middle) <= max(4 * spread, 1.5 * resolution)]
    if resolution < 1.0:
        return middle, MEDIAN * max(spread, resolution) / len(gaps) ** 0.5, len(gaps)
    # Whole seconds: the median would be a whole second too. The mean is not, if the steps fall anywhere in a second;
    # where all differences are equal they do not, and the truth lies within a second of them.
    if len(set(near)) < 2:
        return middle, resolution / Z, len(near)
    return fmean(near), max(spread, resolution / 2) / len(near) ** 0.5 + resolution / 8, len(near)


def _solved(nodes: Sequence[str], pairs: Mapping[tuple[str, str], tuple[float, float, int]]) -> dict[str, Clock]:
    """Return the offsets that fit all pairs best, each weighted by its error; the first node is the reference.

    Nodes that no chain of pairs joins to the reference are left out.
    """
    import numpy as np

    joined = _joined(nodes[0], pairs)
    kept = [node for node in nodes if node in joined]
    if len(kept) < 2:
        return {}
    at = {node: number - 1 for number, node in enumerate(kept)}
    normal = np.zeros((len(kept) - 1, len(kept) - 1))
    right = np.zeros(len(kept) - 1)
    markers = dict.fromkeys(kept, 0)
    for (one, other), (gap, error, number) in pairs.items():
        if one not in at or other not in at:
            continue
        weight = 1.0 / error**2
        for node, sign in ((one, -1.0), (other, 1.0)):
            markers[node] = max(markers[node], number)
            if at[node] >= 0:
                normal[at[node], at[node]] += weight
                right[at[node]] += sign * weight * gap
        if at[one] >= 0 and at[other] >= 0:
            normal[at[one], at[other]] -= weight
            normal[at[other], at[one]] -= weight
    offsets, covariance = np.linalg.solve(normal, right), np.linalg.inv(normal)
    # The differences of all pairs come from the same lines: they do not add to what one pair tells.
    direct = {other: error for (one, other), (_, error, _) in pairs.items() if one == kept[0]}
    found = {kept[0]: Clock(node=kept[0], ahead=0.0, error=0.0, markers=markers[kept[0]])}
    for node in kept[1:]:
        error = max(float(covariance[at[node], at[node]]) ** 0.5, direct.get(node, 0.0))
        found[node] = Clock(node=node, ahead=float(offsets[at[node]]), error=Z * error + 0.001, markers=markers[node])
    return found


def _joined(first: str, pairs: Mapping[tuple[str, str], object]) -> set[str]:
    near: dict[str, set[str]] = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found, waiting = {first}, [first]
    while waiting:
        for other in near.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found
