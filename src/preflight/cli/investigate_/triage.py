"""``preflight investigate triage``: the first five minutes: what the logs say at a glance, or what a live node shows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.options import output

if TYPE_CHECKING:
    from preflight.cli.parts.writing import Writing
    from preflight.vocabulary.report import Report


@click.command("triage")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--live", is_flag=True, help="Look at this node (the default where no PATH is given).")
@click.option(
    "--store", metavar="HOST:PORT", help="Ask the store in which hearts beat who lives; torchrun's by default."
)
@click.option("--world-size", type=click.IntRange(min=1), metavar="N", help="How many ranks there should be.")
@click.option("--deadline", type=click.FloatRange(min=0.5), default=5.0, show_default=True, metavar="SECONDS",
              help="Of silence until a rank is taken for lost; for connections.")  # fmt: skip
@click.option("--stalled", is_flag=True, help="With --store: tell also who lives and makes no step in that time.")
@click.option("--nodes", multiple=True, metavar="HOST[:PORT],...", help="Other nodes to reach (port 22 by default).")
@click.option("--checkpoints", metavar="DIR", help="How old is the last checkpoint?")
@click.option(
    "--oldest", type=click.FloatRange(min=0), metavar="MINUTES", help="A checkpoint that is older is too old."
)
@click.option(
    "--process", type=click.IntRange(min=1), metavar="PID", help="Look at this process and its descendants only."
)
@click.option("--python", default=sys.executable, metavar="EXE", help="The interpreter that trains.")
@output
@click.option("-v", "--verbose", is_flag=True, help="Everything that was considered.")
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Take the first look: at logs (PATH), at this node (--live), or at both.

    Of logs: is it running, ended, hung or slow, when, who, and which way the decision trees go. Of a node: the job's
    processes, memory left on host and cards, who lives, how old the last checkpoint is, which nodes can be reached.
    Every look has a deadline.

    Exit codes: 0 nothing wrong, 1 something is, 2 misuse, 3 cannot be told.
    """
    from msgspec import structs

    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.investigate.answers import Facts
    from preflight.investigate.trees import walk, walk_text
    from preflight.vocabulary.report import VERDICT_ORDER

    look = writing_of(given)
    live, seen = _live(given) if given["live"] or not paths else (None, {})
    logs = _logs(paths) if paths else None
    told = logs.walk if logs is not None and not seen else None  # it knows what was read, too
    way = told or walk(Facts(incident=logs.incident if logs else None, observed=seen))
    reports = [one for one in (logs, live) if one is not None]
    if look.format == "text":
        _in_turn([structs.replace(one, walk=None) for one in reports], walk_text(way, min(look.width or 80, 100)), look)
    else:
        whole = reports[0] if len(reports) == 1 else _merged(*reports)
        answer(structs.replace(whole, walk=way), look, SourceLines())
    return EXIT_CODES[min((one.verdict for one in reports), key=VERDICT_ORDER.__getitem__)]


def _logs(paths: tuple[str, ...]) -> Report:
    from preflight.cli.parts.beside import incident_of, names_a_trace
    from preflight.cli.parts.recording import catalog
    from preflight.investigate.diagnose import diagnose

    return (incident_of if names_a_trace(paths) else diagnose)(paths, signatures=tuple(catalog()))


def _live(given: dict[str, Any]) -> tuple[Report, dict[str, Any]]:
    import os
    import platform

    from preflight.investigate.liveness.board import endpoint_of
    from preflight.investigate.outcome import outcome
    from preflight.investigate.triage.live import Look, look, nothing_of_a_run, observed
    from preflight.investigate.triage.reach import parse

    store = endpoint_of(given["store"]) if given["store"] else None
    if store is None and os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        store = endpoint_of(None)
    seen = look(
        Look(
            store=store, world_size=given["world_size"], deadline=given["deadline"], stalled=given["stalled"], nodes=tuple(parse(given["nodes"])),
            checkpoints=given["checkpoints"], oldest=given["oldest"], python=given["python"], process=given["process"],
        )
    )  # fmt: skip
    notes = list(seen.notes)
    if store is None:
        notes.append(
            "who lives was not asked: --store HOST:PORT, where the program beats (preflight.investigate.liveness)"
        )
    return outcome(
        "triage", platform.node(), seen.findings, pulses=seen.pulses, notes=notes, undecided=nothing_of_a_run(seen)
    ), observed(seen)


def _in_turn(reports: list[Report], way: str, look: Writing) -> None:
    """Show one report after the other, and the way through the trees."""
    from preflight.cli.parts.writing import put
    from preflight.report.render import render

    parts = [
        render(one, "text", width=look.width, color=look.color, verbose=look.verbose, rest=look.rest) for one in reports
    ]
    put("\n".join([*parts, f"THE WAY THROUGH THE DECISION TREES\n{way}"]), look)


def _merged(logs: Report, live: Report) -> Report:
    """Return one report of both: the incident of the logs with what the node shows."""
    import msgspec

    from preflight.vocabulary.report import VERDICT_ORDER

    verdict = min(logs.verdict, live.verdict, key=VERDICT_ORDER.__getitem__)
    return msgspec.structs.replace(
        logs, command=live.command, verdict=verdict, findings=(*logs.findings, *live.findings), pulses=live.pulses,
        notes=(*logs.notes, *live.notes),
    )  # fmt: skip
