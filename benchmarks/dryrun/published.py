"""Holds the dry run against published measurements: each row is written as a program, which runs on the virtual GPU.

Usage: python published.py [PATTERN] [--table] [-j JOBS]
PATTERN chooses rows by a part of their id. What was seen is kept in ``published.csv``, a line for each row, so that a part
can be run again; ``published.md`` is made from it (``--table`` makes it and runs nothing). Rows that name too little, or
whose source's code is not written here, are counted by reason. ``published_causes.toml`` says why a row is off.
Every row runs with the memory of its GPU, so that it also says whether it fits; where it does not, it runs once more
without an end of the memory, for what it would have needed.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import verdicts
from rows import GIB, CannotWrite, Program, card, written

from preflight.catalog.measured import measured_rows
from preflight.check.dry_run.memory import context_of
from preflight.cost.workspace import COMMUNICATOR
from preflight.dryrun.launch import Job, dry_run
from preflight.errors import PreflightError

HERE = Path(__file__).resolve().parent
SEEN, TABLE = HERE / "published.csv", HERE / "published.md"
ENDLESS = 1 << 45


class Seen(msgspec.Struct):
    """What the dry run says of a row.

    Attributes:
        id: The row. reading: What its source read, or ``verdict``.
        published: Bytes of the reading, without the driver's context where the source says it; 0 where it ran out.
        allocated: The highest point. reserved: The same of segments.
        room: Bytes that PyTorch can take of the GPU. fits: Whether the run with this room came to its end.
        problem: Why it did not run.
        date: When it was run.
    """

    id: str
    reading: str = ""
    published: int = 0
    allocated: int = 0
    reserved: int = 0
    room: int = 0
    fits: bool = True
    problem: str = ""
    date: str = ""

    @property
    def virtual(self) -> int:
        """The bytes that are held against the reading."""
        return self.allocated if self.reading == "allocated" else self.reserved


def measure(row: Mapping[str, str]) -> Seen:
    """Run a row's program."""
    program, seen = written(row), Seen(row["id"], date=datetime.date.today().isoformat())
    gpu, size = card(row["gpu"])
    context = int(context_of(gpu).mid)
    job = Job(
        script=str(HERE / "programs" / program.file),
        root=str(HERE / "programs"),
        gpu=msgspec.structs.replace(gpu, context_bytes=context),
        capacity_bytes=size,
        arguments=(program.arguments,),
        steps=3,
        seconds=500,
        devices=program.ranks,
        communicator_bytes=int(COMMUNICATOR.mid),
        environment=ranks_of(program),
    )
    found = dry_run(job)
    if found.full is not None:
        seen.fits = False
        found = dry_run(msgspec.structs.replace(job, capacity_bytes=ENDLESS))
    if found.outcome in ("failed", "late", "limit") or not found.steps:
        seen.problem = f"{found.outcome} {found.error or ''}: {found.message or ''}".strip()[:160]
    seen.reading = program.reading if "measured_peak_gib" in row else "verdict"
    if "measured_peak_gib" in row:
        seen.published = int(float(row["measured_peak_gib"]) * GIB) - (program.beside or 0)
    seen.allocated, seen.reserved = found.peak_bytes, found.reserved_bytes
    seen.room = size - context - found.communicators * int(COMMUNICATOR.mid)
    return seen


def ranks_of(program: Program) -> dict[str, str]:
    """Return what torchrun tells the first of a program's processes."""
    if program.ranks == 1:
        return {}
    world = str(program.ranks)
    return {
        **{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world},
        **{"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"},
    }


def kept() -> dict[str, Seen]:
    """Return what was seen before."""
    if not SEEN.exists():
        return {}
    with open(SEEN, encoding="utf-8", newline="") as file:
        return {row["id"]: msgspec.convert(row, Seen, strict=False) for row in csv.DictReader(file)}


def keep(found: Iterable[Seen]) -> None:
    """Write what was seen, in the order of the ids."""
    with open(SEEN, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Seen.__struct_fields__)
        for seen in sorted(found, key=lambda seen: seen.id):
            writer.writerow(
                [str(value).lower() if isinstance(value, bool) else value for value in msgspec.structs.astuple(seen)]
            )


def attempt(row: Mapping[str, str]) -> Seen | None:
    """Run a row; return None where no program can be written."""
    try:
        return measure(row)
    except CannotWrite:
        return None
    except PreflightError as error:
        return Seen(row["id"], problem=str(error)[:160], date=datetime.date.today().isoformat())


def main() -> int:
    """Run the chosen rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    rows = [*measured_rows("memory"), *measured_rows("fits_oom")]
    chosen = [] if given.table else [row for row in rows if given.pattern in row["id"]]
    with ThreadPoolExecutor(given.jobs) as pool:
        for seen in pool.map(attempt, chosen):
            if seen is None:
                continue
            keep((kept() | {seen.id: seen}).values())
            ratio = f"{seen.virtual / seen.published - 1:+.1%}" if seen.published else "-"
            print(
                f"{seen.id}: {seen.published / GIB:.3f} {seen.virtual / GIB:.3f} {ratio} "
                f"{'fits' if seen.fits else 'OOM'} {seen.problem}",
                file=sys.stderr,
                flush=True,
            )
    TABLE.write_text(verdicts.page(rows, kept()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
