"""``preflight investigate topology``: every rank with every other: which link, which rank, which node is slow, or gone."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("topology")
@click.option("--ranks", type=click.IntRange(min=2, max=64), metavar="N", help="Start so many ranks on this machine.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="gloo or NCCL.")
@click.option("--sizes", default="8,1MB", show_default=True, metavar="SIZES", help="Blocks that go back and forth.")
@click.option("--repeats", type=click.IntRange(min=6), default=10, show_default=True, metavar="N")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=63, show_default=True, metavar="N", help="Of large jobs, so many."
)
@click.option("--deadline", type=click.FloatRange(min=1), default=20.0, show_default=True, metavar="SECONDS",
              help="For a meeting, and of silence until a rank is taken for gone.")  # fmt: skip
@click.option("--starting", type=click.FloatRange(min=1), default=60.0, show_default=True, metavar="SECONDS",
              help="Until a rank that has not come is taken to never come.")  # fmt: skip
@click.option("--per-node", type=click.IntRange(min=1), metavar="N", help="With --ranks: so many are taken for a node.")
@click.option("--inject", multiple=True, metavar="FAULT=WHERE",
              help="Demonstrate: slow-link=2-5, slow-node=node1, dead-rank=3.")  # fmt: skip
@click.option("--python", default=sys.executable, metavar="EXE", help="The interpreter that trains.")
@output
@click.option("-v", "--verbose", is_flag=True, help="Every pair.")
def command(**given: Any) -> int:
    """Let every rank exchange blocks with every other, two by two, and say which node, rank or link is slow or gone.

    As a rank of a launched job (torchrun ... --no-python preflight investigate topology), or with --ranks N on ranks that
    are started here. Nobody waits for a rank that is dead; the lowest rank that lives answers.

    Exit codes: 0 all reach each other, 1 a rank is gone or a link fails, 2 misuse, 3 nobody met anybody.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.progress import following
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.errors import UsageError
    from preflight.investigate.topology.match import play

    look = writing_of(given)
    launched = given["ranks"] is None
    if launched and (int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ):
        raise UsageError("there is one rank only", "start it with torchrun --no-python, or with --ranks N")
    match = _match(given)
    busy = _busy()
    with following(look) as say:
        played = play(match, say)
    report = _report(played, match, given["inject"], busy)
    speaks = played.told[0] if played.told else None
    if not launched or int(os.environ["RANK"]) == speaks or speaks is None:
        answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _match(given: dict[str, Any]) -> Any:
    from preflight.cli.investigate_.probe import _bytes
    from preflight.errors import UsageError, nearest
    from preflight.investigate.topology.match import Match, as_pairs

    faults: dict[str, list[str]] = {"slow-link": [], "slow-node": [], "dead-rank": []}
    for one in given["inject"]:
        name, _, where = one.partition("=")
        digits = where.replace("-", "", 1) if name == "slow-link" else where
        if name not in faults or not where or (name != "slow-node" and not digits.isdigit()):
            raise UsageError(
                f"{one!r} cannot be injected",
                f"{nearest(name, faults) or 'slow-link'}: slow-link=2-5, slow-node=node1, dead-rank=3",
            )
        faults[name].append(where)
    _strikes(faults, given["ranks"], given["per_node"])
    return Match(
        python=given["python"], ranks=given["ranks"], device=given["device"], repeats=given["repeats"],
        sizes=tuple(_bytes(part) for part in given["sizes"].split(",")), deadline=given["deadline"],
        starting=given["starting"],
        most_rounds=given["rounds"], per_node=given["per_node"], slow_links=as_pairs(faults["slow-link"]),
        slow_nodes=tuple(faults["slow-node"]), dead_ranks=tuple(map(int, faults["dead-rank"])),
    )  # fmt: skip


def _strikes(faults: dict[str, list[str]], ranks: int | None, per_node: int | None) -> None:
    """Refuse a fault of a rank or node that is not started here, as it would show nothing; of a launched job, nothing is known.

    Raises:
        UsageError: There is no such rank or node.
    """
    from preflight.errors import UsageError

    if ranks is None:
        return
    named = [int(part) for one in (*faults["slow-link"], *faults["dead-rank"]) for part in one.split("-")]
    beyond = next((rank for rank in named if rank >= ranks), None)
    if beyond is not None:
        raise UsageError(f"there is no rank {beyond} among {ranks}", f"ranks are counted from 0 to {ranks - 1}")
    if faults["slow-node"] and per_node is None:
        raise UsageError("there is one node only", "--per-node N takes N ranks for a node: node0, node1 ...")
    nodes = [f"node{number}" for number in range(-(-ranks // per_node))] if per_node else []
    strange = next((name for name in faults["slow-node"] if name not in nodes), None)
    if strange is not None:
        raise UsageError(f"there is no node {strange}", f"one of {', '.join(nodes)}")


def _busy() -> list[str]:
    """Say that others want the processors of this node, before its own ranks do: who has to wait for one looks slow."""
    try:
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
    except (AttributeError, OSError):  # not on this system, or its kernel does not tell
        return []
    if load <= processors:
        return []
    said = f"the {processors} processors of this node are busy (load {load:.1f})"
    return [f"{said}: a rank that has to wait for one looks slow, and so do its links"]


def _report(played: Any, match: Any, injected: tuple[str, ...], busy: list[str]) -> Any:
    from preflight.investigate.doctor.asking import NoAnswer, ask
    from preflight.investigate.outcome import outcome
    from preflight.investigate.topology.expected import kinds, unequal
    from preflight.investigate.topology.judging import findings_of, measurements, outcome_of

    links, notes = {}, list(busy)
    if match.device == "cuda":
        try:
            cards = kinds(ask(["nvidia-smi", "topo", "-m"], 20.0))
            notes += unequal(cards)
            links = _of_ranks(cards, played.hosts)
        except NoAnswer as error:
            notes.append(f"how cards are connected is not known: {error}")
    ends = ", ".join(f"{count} {name}" for name, count in sorted(outcome_of(played.meetings).items()))
    notes += [f"injected for demonstration: {', '.join(injected)}"] if injected else []
    notes.append(f"meetings, as each of the two saw them: {ends or 'none'}")
    hosts = len(set(played.hosts.values()))
    subject = f"{played.world} ranks on {hosts} node{'s' if hosts != 1 else ''}"
    measured = measurements(played)
    return outcome(
        "topology", subject, findings_of(played, links), measurements=measured, notes=notes, undecided=not measured,
        inputs={"injected": list(injected)} if injected else None,
    )  # fmt: skip


def _of_ranks(cards: dict[tuple[int, int], str], hosts: dict[int, str]) -> dict[tuple[int, int], str]:
    """Return kinds by ranks: the n-th rank of a node has its n-th card; all nodes are taken to be built like this one."""
    places: dict[int, int] = {}
    for rank in sorted(hosts):
        places[rank] = sum(hosts[other] == hosts[rank] for other in range(rank) if other in hosts)
    return {
        (a, b): cards[pair]
        for a in hosts for b in hosts
        if a < b and hosts[a] == hosts[b] and (pair := (min(places[a], places[b]), max(places[a], places[b]))) in cards
    }  # fmt: skip
