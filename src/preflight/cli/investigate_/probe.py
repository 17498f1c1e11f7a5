"""``preflight investigate probe``: measure one part of a job alone, on every rank, and name the rank that is not like the others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("probe")
@click.argument("words", nargs=-1, metavar="[NAME...|DIR|FILE...]")
@click.option("--ranks", type=click.IntRange(min=1, max=64), metavar="N", help="Start so many ranks on this machine.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: cards where there are any.")
@click.option("--shape", metavar="NAME=N,...", help="compute: batch, sequence, hidden, layers, heads.")
@click.option(
    "--largest", metavar="SIZE", help="collectives: the largest, as 64MB (default: 256MB on cards, else 4MB)."
)
@click.option("--bytes", "size", metavar="SIZE", help="memory, storage: how much.")
@click.option("--folder", metavar="DIR", help="storage: where to write. loading: files to read.")
@click.option("--loader", metavar="FILE.py:FUNCTION", help="loading: a function that returns your loader.")
@click.option("--workers", type=click.IntRange(min=0), metavar="N", help="loading: workers.")
@click.option("--repeats", type=click.IntRange(min=10), default=20, show_default=True, metavar="N")
@click.option(
    "--deadline",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For each operation.",
)
@click.option("--inject", multiple=True, metavar="FAULT=RANKS",
              help="Demonstrate: slow-rank=1, slow-loader=2, slow-link=0-1, bit-flip=3.")  # fmt: skip
@click.option("--python", default=sys.executable, metavar="EXE", help="The interpreter that trains.")
@click.option("--save", metavar="DIR", help="Keep this rank's report there, as rank_N.json.")
@click.option("--compare", is_flag=True, help="Compare the reports of all ranks: DIR holds them, or FILEs name them.")
@output
@click.option("-v", "--verbose", is_flag=True, help="Every measurement.")
def command(words: tuple[str, ...], **given: Any) -> int:
    """Measure parts of a job alone: compute, collectives, memory, loading, storage, processor (all of them by default).

    Alone, on one rank of a launched job (torchrun ... --no-python preflight investigate probe --save DIR), or with --ranks N
    on ranks that are started here. Each operation has a deadline, in a process that is replaced when it hangs.

    Exit codes: 0 measured (who stands out is warned of), 1 wrong results or time-outs, 2 misuse, 3 nothing could be measured.
    """
    import shlex

    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.one_of_many import say_a_line, says_a_line
    from preflight.cli.parts.progress import following
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.errors import UsageError
    from preflight.investigate.doctor.snapshot import own_rank

    look = writing_of(given)
    if given["compare"]:
        if not words:
            raise UsageError("nothing to compare is given", "preflight investigate probe --compare DIR")
        report = _compared(words)
    else:
        with following(look) as say:
            report = _measured(words, given, say)
        if says_a_line(given["save"], look):
            compare = f"preflight investigate probe --compare {shlex.quote(given['save'])}"
            say_a_line(report, own_rank(), given["save"], compare, look)
            return EXIT_CODES[report.verdict]
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _measured(words: tuple[str, ...], given: dict[str, Any], say: Any) -> Any:
    from preflight.investigate.outcome import outcome
    from preflight.investigate.outliers import few, findings_of
    from preflight.investigate.probing import Setup, probe, probe_names, run

    for word in words:
        probe(word)
    size = {"bytes": _bytes(given["size"])} if given["size"] else {}
    folder = {"folder": given["folder"]} if given["folder"] else {}
    loading = {"workers": given["workers"] or 0, **({"loader": given["loader"]} if given["loader"] else {})}
    setup = Setup(
        python=given["python"], ranks=given["ranks"], device=given["device"], deadline=given["deadline"],
        repeats=given["repeats"], largest=_bytes(given["largest"]) if given["largest"] else None,
        settings={"compute": {"shape": _shape(given["shape"])} if given["shape"] else {}, "memory": size,
                  "storage": {**size, **folder}, "loading": {**folder, **loading}},
        inject=_inject(given["inject"]),
    )  # fmt: skip
    names = words or probe_names()
    _strikes(setup.inject, names, setup.ranks)
    measured = run(names, setup, say)
    ranks = {one.rank for one in measured if one.rank is not None}
    subject = f"{', '.join(names)} on {len(ranks) or 1} rank{'s' if len(ranks) > 1 else ''}"
    notes = [f"injected for demonstration: {', '.join(given['inject'])}"] if given["inject"] else []
    notes += few(len(ranks))
    done = any(one.outcome == "done" for one in measured)
    report = outcome(
        "probe", subject, findings_of(measured), measurements=measured, notes=notes, undecided=not done,
        inputs={"injected": list(given["inject"])} if given["inject"] else None,
    )  # fmt: skip
    if given["save"]:
        _save(report, given["save"])
    return report


def _save(report: Any, folder: str) -> None:
    import os

    from preflight.check.files.text_file import write_whole
    from preflight.cli.parts.one_of_many import folder_for
    from preflight.investigate.doctor.snapshot import own_rank
    from preflight.report.render import render

    folder_for(folder)
    rank = own_rank()
    name = f"rank_{rank}" if rank is not None else "ranks"
    write_whole(os.path.join(folder, f"{name}.json"), render(report, "json").encode())


def _compared(words: tuple[str, ...]) -> Any:
    from pathlib import Path

    from preflight.errors import InputError
    from preflight.investigate.outcome import outcome
    from preflight.investigate.outliers import few, findings_of
    from preflight.report.json import from_json

    paths = [
        path for word in words for path in (sorted(Path(word).glob("*.json")) if Path(word).is_dir() else [Path(word)])
    ]
    try:
        reports = [from_json(path.read_bytes()) for path in paths]
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    measured = tuple(one for report in reports for one in report.measurements)
    ranks = {one.rank for one in measured if one.rank is not None}
    notes = few(len(ranks))
    nodes = len({one.node for one in measured})
    subject = f"{len(ranks)} ranks on {nodes} node{'s' if nodes != 1 else ''}"
    injected = sorted({fault for report in reports for fault in report.rehearsed})
    return outcome(
        "probe", subject, findings_of(measured), measurements=measured, notes=notes, undecided=not measured,
        inputs={"injected": injected} if injected else None,
    )  # fmt: skip


def _bytes(text: str) -> int:
    """Return the bytes of ``64MB``, ``1GiB`` or a number; units are powers of 1,024."""
    import re

    from preflight.errors import UsageError

    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if not found:
        raise UsageError(f"{text!r} is no size", "a size is 64MB, 1GiB or a number of bytes")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))


def _shape(text: str) -> dict[str, int]:
    from preflight.errors import UsageError
    from preflight.investigate.probes.compute import SMALL

    shape = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in SMALL or not value.isdigit() or int(value) < 1:
            raise UsageError(
                f"{part!r} is no part of a shape", f"one of {', '.join(SMALL)}, each with a number: hidden=4096"
            )
        shape[name] = int(value)
    whole = {**SMALL, **shape}
    if whole["hidden"] % whole["heads"]:
        raise UsageError(
            f"{whole['hidden']} is no multiple of {whole['heads']} heads", "name both: hidden=4096,heads=32"
        )
    return shape


def _inject(given: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    import re

    from preflight.errors import UsageError, nearest

    known = ("slow-rank", "slow-loader", "slow-link", "bit-flip")
    found = {}
    for one in given:
        name, _, ranks = one.partition("=")
        if name not in known or not re.fullmatch(r"\d+([-,]\d+)*", ranks):
            near = nearest(name, known)
            raise UsageError(f"{one!r} cannot be injected", f"{near or 'slow-rank'}=1; one of {', '.join(known)}")
        found[name] = tuple(int(part) for part in re.split("[-,]", ranks))
    return found


def _strikes(inject: dict[str, tuple[int, ...]], names: Sequence[str], ranks: int | None) -> None:
    """Refuse a fault that none of the probes would notice, or on a rank that is not started.

    Raises:
        UsageError: It would show nothing.
    """
    from preflight.errors import UsageError
    from preflight.investigate.probing import STRUCK

    for fault, struck in inject.items():
        if not set(STRUCK[fault]) & set(names):
            raise UsageError(
                f"{fault} strikes {' and '.join(STRUCK[fault])}, and not {', '.join(names)}", f"name {STRUCK[fault][0]}"
            )
        beyond = [rank for rank in struck if ranks is not None and rank >= ranks]
        if ranks is not None and beyond:
            raise UsageError(
                f"there is no rank {beyond[0]} among {ranks}", f"ranks are counted from 0: {fault}={ranks - 1}"
            )
