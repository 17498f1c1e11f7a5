"""What the meetings come to: ranks that are absent, links that fail, and nodes, ranks or links that are slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from preflight.investigate.outliers import times
from preflight.investigate.probes.timed import summary
from preflight.investigate.topology.effects import FEWEST, Pair, polish, slow_links, slow_ranks
from preflight.investigate.topology.match import Meeting, Played
from preflight.vocabulary.finding import Evidence, Finding, Location
from preflight.vocabulary.live import Measurement
from preflight.vocabulary.quantity import format_seconds

CODES = {"topology.absent": "TOP101", "topology.failed": "TOP102", "topology.wrong": "TOP103",
         "topology.node": "TOP201", "topology.rank": "TOP202", "topology.link": "TOP203"}  # fmt: skip


def measurements(played: Played) -> list[Measurement]:
    """Return the time of each pair and size: the median of what the lower rank saw, or of the other where it did not tell."""
    found = []
    for pair, size, samples in sorted(_samples(played)):
        value, low, high = summary(samples)
        found.append(
            Measurement(probe="topology", name=f"link {pair[0]}-{pair[1]} {_size(size)}", unit="s", better="smaller",
                        value=value, low=low, high=high, repeats=len(samples), rank=pair[0], peer=pair[1],
                        node=played.hosts.get(pair[0]), details={"bytes": size, "byte_per_s": size / value})
        )  # fmt: skip
    return found


def _samples(played: Played) -> list[tuple[Pair, int, list[float]]]:
    best: dict[tuple[Pair, int], list[float]] = {}
    for one in sorted(played.meetings, key=lambda one: -one.rank):
        for size, samples in one.times.items():
            best[(min(one.rank, one.peer), max(one.rank, one.peer)), int(size)] = samples
    return [(pair, size, samples) for (pair, size), samples in best.items()]


def findings_of(played: Played, kinds: Mapping[Pair, str] | None = None) -> list[Finding]:
    """Return what stands out.

    Args:
        played: The tournament.
        kinds: How cards of a node are connected (``NV18``, ``SYS``), by pair of ranks: only links of a kind are compared.
    """
    found = _absent(played) + _failed(played)
    sizes = sorted({size for _, size, _ in _samples(played)})
    told: set[tuple[str, object]] = set()
    for size in sizes:
        times = {pair: median(samples) for pair, at, samples in _samples(played) if at == size}
        classes: dict[str, dict[Pair, float]] = {}
        for pair, time in times.items():
            classes.setdefault(_class(pair, played.hosts, kinds or {}), {})[pair] = time
        for kind, links in sorted(classes.items()):
            found += _slow(kind, links, size, played.hosts, told)
    return found


def _class(pair: Pair, hosts: Mapping[int, str], kinds: Mapping[Pair, str]) -> str:
    a, b = (hosts.get(rank) for rank in pair)
    if a != b:
        return "between nodes"
    kind = kinds.get(pair)
    return f"within a node over {kind}" if kind else "within a node"


def absent_ranks(played: Played) -> tuple[int, ...]:
    """Return the ranks that did not hand in results and that others missed, or that never came."""
    missed = {one.peer for one in played.meetings if one.outcome == "absent"} - set(played.told)
    return tuple(sorted(missed | (set(range(played.world)) - set(played.told))))


def _absent(played: Played) -> list[Finding]:
    found = []
    for rank in absent_ranks(played):
        met = sum(one.peer == rank and one.outcome == "done" for one in played.meetings)
        said = (
            f"rank {rank} never came"
            if rank not in played.hosts
            else f"rank {rank} fell silent after {met} meeting{'s' * (met != 1)}"
        )
        where = Location(rank=rank, node=played.hosts.get(rank))
        found.append(Finding("topology.absent", CODES["topology.absent"], "error", "certain", said, where))
    return found


def _failed(played: Played) -> list[Finding]:
    """Return links over which two ranks that live could not exchange anything, and values that came back wrong."""
    gone = set(absent_ranks(played))
    bad: dict[Pair, Meeting] = {}
    found = []
    for one in played.meetings:
        pair = (min(one.rank, one.peer), max(one.rank, one.peer))
        if one.outcome in ("failed", "timeout") and not gone & set(pair):
            bad.setdefault(pair, one)
        if one.wrong:
            said = f"{one.wrong} values came back wrong between ranks {pair[0]} and {pair[1]}"
            where = Location(rank=one.rank, node=played.hosts.get(one.rank))
            found.append(Finding("topology.wrong", CODES["topology.wrong"], "error", "certain", said, where))
    for (a, b), one in sorted(bad.items()):
        said = f"ranks {a} and {b} both live and cannot reach each other: {one.reason}"
        where = Location(rank=a, node=played.hosts.get(a))
        found.append(Finding("topology.failed", CODES["topology.failed"], "error", "certain", said, where))
    return found


def _slow(
    kind: str, links: Mapping[Pair, float], size: int, hosts: Mapping[int, str], told: set[tuple[str, object]]
) -> list[Finding]:
    """Return the nodes, ranks and links of one kind that are slow at one size; each is told once, at its smallest size."""
    if len(links) < FEWEST:
        return []
    effects = polish(links)
    usual = f"{format_seconds(effects.common)} for {_size(size)} {kind}"
    found, ranks = [], slow_ranks(effects)
    for host in sorted({hosts[rank] for rank in ranks if rank in hosts}):
        mine = [rank for rank in effects.ranks if hosts.get(rank) == host]
        if len(mine) > 1 and all(rank in ranks for rank in mine) and ("node", host) not in told:
            factor = median(ranks[rank] for rank in mine)
            said = f"node {host}: all of its {len(mine)} ranks are {times(factor)} slower {kind} than the others"
            found.append(_finding("topology.node", said, usual, Location(node=host)))
        if len(mine) > 1 and all(rank in ranks for rank in mine):
            told |= {("node", host), *(("rank", rank) for rank in mine)}
    for rank, factor in ranks.items():
        if ("rank", rank) not in told:
            told.add(("rank", rank))
            said = f"rank {rank}: all of its links {kind} are {times(factor)} slower than the others'"
            found.append(_finding("topology.rank", said, usual, Location(rank=rank, node=hosts.get(rank))))
    for pair, factor in slow_links(effects).items():
        if ("link", pair) not in told:
            told.add(("link", pair))
            a, b = pair
            said = f"the link between ranks {a} and {b} is {times(factor)} slower than their other links let expect ({kind})"
            where = Location(rank=a, node=hosts.get(a) if hosts.get(a) == hosts.get(b) else None)
            found.append(_finding("topology.link", said, usual, where))
    return found


def _finding(rule: str, said: str, usual: str, where: Location) -> Finding:
    return Finding(
        rule,
        CODES[rule],
        "warning",
        "likely",
        said,
        where,
        evidence=(Evidence(what="usual", value=usual, source="measured"),),
    )


def _size(count: int) -> str:
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count / step:g} {unit}"
    return f"{count} B"


def outcome_of(meetings: Sequence[Meeting]) -> dict[str, int]:
    """Return how many meetings ended how."""
    found: dict[str, int] = {}
    for one in meetings:
        found[one.outcome] = found.get(one.outcome, 0) + 1
    return found
