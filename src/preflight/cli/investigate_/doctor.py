"""``preflight investigate doctor``: what each rank runs on, and what is not the same on all of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from preflight.cli.parts.options import output

SHOWN = ("host.name", "host.system", "host.processors_allowed", "python.version", "python.path", "torch.version", "torch.cuda",
         "torch.nccl", "torch.devices", "torch.backends", "driver.version", "driver.problem", "gpu.count", "gpu.0.name",
         "memory.total_bytes", "memory.available_bytes", "limit.nofile", "limit.memlock", "shm.free_bytes", "tmp.free_bytes",
         "checkpoints.folder", "checkpoints.file_system", "checkpoints.free_bytes", "clock.synchronised",
         "clock.problem")  # fmt: skip
# The variables that decide how ranks find each other, what they run on and how they allocate.
VARIABLES = ("NCCL", "TORCH", "PYTORCH", "CUDA", "GLOO", "UCX", "FI_", "MASTER_", "OMP_", "HSA", "ROCM", "RCCL", "SLURM_JOB_ID",
             "RANK", "WORLD_SIZE", "LOCAL_RANK")  # fmt: skip


@click.command("doctor")
@click.argument("paths", nargs=-1, metavar="[DIR|FILE...]")
@click.option("--compare", is_flag=True, help="Compare the snapshots of all ranks: DIR holds them, or FILEs name them.")
@click.option("--save", metavar="DIR", help="Keep this rank's snapshot there, as rank_N.json.")
@click.option("--checkpoints", metavar="DIR", help="The folder of checkpoints: is written to, synced and measured.")
@click.option(
    "--checkpoint-gb",
    type=click.FloatRange(min=0),
    metavar="GB",
    help="What a checkpoint takes; is there room for one?",
)
@click.option("--python", default=sys.executable, metavar="EXE", help="The interpreter that trains.")
@click.option("--deadline", type=click.FloatRange(min=0.1), default=20.0, show_default=True, metavar="SECONDS",
              help="For each program that is asked.")  # fmt: skip
@output
@click.option("-v", "--verbose", is_flag=True, help="Everything that was found.")
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Look at what this rank runs on: versions, driver, variables, interfaces, limits, room, clocks, cards.

    Under a launcher each rank keeps its own snapshot (torchrun ... --no-python preflight investigate doctor --save DIR);
    --compare DIR then says which rank is not like the others.

    Exit codes: 0 nothing wrong, 1 an error was found, 2 misuse.
    """
    import shlex

    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.one_of_many import say_a_line, says_a_line
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.errors import UsageError
    from preflight.investigate.doctor.snapshot import own_rank

    look = writing_of(given)
    if given["compare"] and not paths:
        raise UsageError("nothing to compare is given", "preflight investigate doctor --compare DIR")
    if paths and not given["compare"]:
        raise UsageError(f"what is {paths[0]}?", f"preflight investigate doctor --compare {paths[0]}")
    if given["compare"]:
        report = _compared(list(paths))
    else:
        report = _taken(given, verbose=given["verbose"])
        if says_a_line(given["save"], look):
            compare = f"preflight investigate doctor --compare {shlex.quote(given['save'])}"
            say_a_line(report, own_rank(), given["save"], compare, look)
            return EXIT_CODES[report.verdict]
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _taken(given: dict[str, Any], *, verbose: bool) -> Any:
    from preflight.investigate.doctor.findings import of_snapshot
    from preflight.investigate.doctor.snapshot import take
    from preflight.investigate.doctor.wanted import Wanted
    from preflight.investigate.outcome import outcome

    size = given["checkpoint_gb"]
    wanted = Wanted(
        python=given["python"], checkpoints=given["checkpoints"], seconds=given["deadline"],
        checkpoint_bytes=None if size is None else int(size * 1e9),
    )  # fmt: skip
    snapshot = take(wanted)
    notes = []
    if given["save"]:
        notes.append(f"kept in {_save(snapshot, given['save'])}")
    facts = {
        name: value for name, value in snapshot.values.items()
        if verbose or given["format_"] == "json" or _told(name, snapshot.values)
    }  # fmt: skip
    if len(facts) < len(snapshot.values):
        notes.append(f"{len(snapshot.values) - len(facts)} more facts: -v")
    where = f"rank {snapshot.rank} on {snapshot.node}" if snapshot.rank is not None else str(snapshot.node)
    return outcome("doctor", where, of_snapshot(snapshot), facts=facts, notes=notes)


def _told(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a fact is one that a person looks for first."""
    kind, _, rest = name.partition(".")
    if kind == "environment":
        return rest.startswith(VARIABLES)
    if kind == "interface":  # an interface that carries something
        one = rest.rpartition(".")[0]
        return one != "lo" and values.get(f"interface.{one}.state") == "up"
    return name in SHOWN


def _save(snapshot: Any, folder: str) -> str:
    import os

    from preflight.check.files.text_file import write_whole
    from preflight.cli.parts.one_of_many import folder_for
    from preflight.investigate.doctor.snapshot import encode

    folder_for(folder)
    name = f"rank_{snapshot.rank}" if snapshot.rank is not None else f"host_{snapshot.node}"
    path = os.path.join(folder, f"{name}.json")
    write_whole(path, encode(snapshot))
    return path


def _compared(paths: list[str]) -> Any:
    from preflight.errors import InputError
    from preflight.investigate.doctor.compare import compare, suspects
    from preflight.investigate.doctor.findings import of_differences, of_snapshot, ranks_text
    from preflight.investigate.doctor.snapshot import read
    from preflight.investigate.outcome import outcome

    named = read(paths)
    if len(named) < 2:
        raise InputError("there is one snapshot only", "every rank (or node) keeps its own: doctor --save DIR")
    # Files of hosts, without a launcher, are numbered in the order of their names.
    known = all(key.isdigit() for key in named)
    snapshots = {int(key) if known else number: one for number, (key, one) in enumerate(named.items())}
    differences = compare(snapshots)
    findings = of_differences(differences, snapshots)
    alone: dict[tuple[str, str], list[Any]] = {}
    for one in (found for snapshot in snapshots.values() for found in of_snapshot(snapshot)):
        alone.setdefault((one.rule, one.message), []).append(one)
    findings += [_of_many(same, len(snapshots)) for same in alone.values()]
    odd = suspects(differences, {rank: one.node for rank, one in snapshots.items()})
    notes = (
        [] if known else ["no launcher named the ranks: " + ", ".join(f"{n} is {key}" for n, key in enumerate(named))]
    )
    if odd and odd[0][1] >= 1:  # a warning at least
        first = tuple(sorted(rank for rank, score in odd if score == odd[0][1]))
        theirs = {snapshots[rank].node for rank in first}
        on = f", all of node {next(iter(theirs))}" if len(theirs) == 1 and len(first) > 1 else ""
        notes.insert(0, f"most unlike the others: {ranks_text(first)}{on}")
    nodes = len({one.node for one in snapshots.values()})
    subject = f"{len(snapshots)} ranks on {nodes} node{'s' if nodes > 1 else ''}"
    return outcome("doctor", subject, findings, differences=differences, notes=notes)


def _of_many(same: list[Any], count: int) -> Any:
    """Return one finding for what several ranks have in common."""
    import msgspec

    from preflight.investigate.doctor.findings import ranks_text
    from preflight.vocabulary.finding import Location

    if len(same) == 1:
        return same[0]
    ranks = tuple(sorted({one.location.rank for one in same if one.location.rank is not None}))
    nodes = {one.location.node for one in same}
    node = next(iter(nodes)) if len(nodes) == 1 else None
    where = f"all {count} ranks" if len(same) == count else ranks_text(ranks) if ranks else f"{len(same)} nodes"
    return msgspec.structs.replace(same[0], message=f"{same[0].message} ({where})", location=Location(node=node))
