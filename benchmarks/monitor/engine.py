"""Measure learning and checking: inference, the live check of a step, the engine fed in batches, and how they grow.

    python benchmarks/monitor/engine.py [TRACE] [--rows 1000000] [--profile NAME] [--only PART ...]

TRACE is a recording of `gpt.py --steps 100` (`preflight monitor collect -o TRACE -- python gpt.py --steps 100`); without
one it is recorded first. On a busy machine that recording is thinned out, and its iterations have fewer events.
Longer traces are made of it: its windows again and again, with iterations, steps and events numbered on.
An event is a row of the trace: a call, a tensor that went in or out, a number, a batch, the end of an iteration, or the
state of all parameters, gradients or buffers at a moment, which is one row however many there are of them.
CPU time of the process, not wall time, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from long_traces import Tables, as_tables, lengthened, read, recorded, refused, rows_in, written

from preflight.monitor.follow import Follower
from preflight.monitor.judging.assemble import Assembler
from preflight.monitor.judging.engine import Engine
from preflight.monitor.learn.infer import infer
from preflight.monitor.library_of import shipped
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.window import Window


def in_own_process(what: str, *arguments: str) -> dict[str, Any]:
    """Run a measurement in a process of its own: CPU seconds, largest memory and what it says."""
    command = [sys.executable, __file__, "--inner", what, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what} of {' '.join(arguments) or 'nothing'} failed:\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def inner_infer(*folders: str) -> dict[str, Any]:
    learnt = infer(folders)
    return {"rows": learnt.rows, "invariants": len(learnt.invariants)}


def inner_import() -> dict[str, Any]:
    return {}


def inner_read(folder: str) -> dict[str, Any]:
    return {"rows": sum(rows_in([batch.tables]) for batch in TraceFolder(Path(folder)).batches())}


def inner_check(folder: str) -> dict[str, Any]:
    follower = Follower(TraceFolder(Path(folder)), shipped())
    follower.check()
    rows = sum(sum(process.rows.values()) for process in follower.folder.processes)
    return {"rows": rows, "violations": len(follower.violations())}


INNER: dict[str, Callable[..., dict[str, Any]]] = {
    "import": inner_import,
    "infer": inner_infer,
    "read": inner_read,
    "check": inner_check,
}
"""What is measured in a process of its own."""


def told_inner(what: str, arguments: list[str]) -> None:
    import resource

    said = INNER[what](*arguments)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = usage.ru_maxrss / 1024  # on Linux also that of the process it was started from
    if (status := Path("/proc/self/status")).exists():
        most = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    print(json.dumps({**said, "cpu": usage.ru_utime + usage.ru_stime, "megabytes": most}))


def cpu(what: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    given = what()
    return time.process_time() - began, given


def live(parts: list[Tables]) -> list[float]:
    """CPU milliseconds for each iteration, fed as it would come in a run."""
    engine, assembler = Engine(shipped()), Assembler()
    spent = []
    for tables in parts:
        began = time.process_time()
        for window in assembler.feed(tables):
            engine.see(window)
        spent.append((time.process_time() - began) * 1e3)
    return spent


def batch(tables: list[Tables]) -> Engine:
    """The same engine over all tables at once."""
    engine, assembler = Engine(shipped()), Assembler()
    for one in tables:
        for window in assembler.feed(one):
            engine.see(window)
    engine.finish()
    return engine


def alone(trace: Path) -> None:
    """What each relation of the library costs by itself, in microseconds for each iteration."""
    assembler = Assembler()
    windows: list[Window] = [window for tables in read(trace) for window in assembler.feed(tables)]
    invariants = shipped()
    for name in sorted({one.relation for one in invariants}):
        engine = Engine([one for one in invariants if one.relation == name])
        spent, _ = cpu(lambda engine=engine: [engine.see(window) for window in windows])
        print(f"  {name:40s} {spent / len(windows) * 1e6:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--profile", choices=["batch", "infer"])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="the parts to be measured")
    parser.add_argument("--inner", nargs="+")
    given = parser.parse_args()
    if given.inner:
        told_inner(given.inner[0], given.inner[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        trace = given.trace or recorded(Path(folder) / "trace")
        if why := refused(trace):
            parser.error(why)
        if given.profile:
            profiled(trace, given.profile)
            return
        for name in given.only or PARTS:
            PARTS[name](trace, given.rows)


def profiled(trace: Path, what: str) -> None:
    """Where the time of a part goes."""
    tables = read(trace)
    with cProfile.Profile() as profile:
        batch(tables) if what == "batch" else infer([trace])
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def told_of_inference(trace: Path, rows: int) -> None:
    """What learning from the recording and from longer traces costs, and how it grows."""
    nothing = in_own_process("import")
    print(f"{'the imports alone':44s} {nothing['cpu']:6.2f} s CPU  {nothing['megabytes']:5.0f} MB")
    one = in_own_process("infer", str(trace))
    print(f"{'inference, ' + format(one['rows'], ',') + ' events (the recording)':44s} {_of(one)}")
    with tempfile.TemporaryDirectory() as folder:
        for size, world in ((rows // 4, 1), (rows // 4, 2), (rows // 2, 1), (rows, 1)):
            told = in_own_process("infer", str(written(trace, Path(folder) / f"{size}.{world}", size, world)))
            ranks = f" on {world} ranks" if world > 1 else ""
            print(f"{'inference, ' + format(told['rows'], ',') + ' events' + ranks:44s} {_of(told)}")


def told_live(trace: Path, _rows: int) -> None:
    """What the check of a step costs while it is made."""
    spent = sorted(live([as_tables(part) for part in lengthened(trace, 30_000)])[1:])
    middle, most = spent[len(spent) // 2], spent[int(len(spent) * 0.99)]
    mean = sum(spent) / len(spent)
    print(f"live check of one step: mean {mean:.3f} ms, median {middle:.3f}, 99 of 100 below {most:.3f} ms CPU")


def told_batches(trace: Path, rows: int) -> None:
    """How many events the engine judges in a second, from the tables of blocks in memory.

    What a process pays once, to import the relations and to read the library, is told by itself.
    """
    seconds, _ = cpu(lambda: Engine(shipped()))
    print(f"{'the first engine of a process':44s} {seconds:6.2f} s CPU")
    for size in (rows // 10, rows // 5):
        parts = list(lengthened(trace, size))
        tables = [as_tables([row for part in parts[at : at + 10] for row in part]) for at in range(0, len(parts), 10)]
        count = rows_in(tables)
        del parts
        gc.collect()
        gc.freeze()  # what is only measured with is not looked through while it is measured
        seconds, engine = cpu(lambda tables=tables: batch(tables))
        gc.unfreeze()
        told = f"{count / seconds:9,.0f} events/s, violations: {len(engine.violations())}"
        print(f"{'engine in batches, ' + format(count, ',') + ' events':44s} {seconds:6.2f} s CPU  {told}")


def told_whole(trace: Path, rows: int) -> None:
    """What `monitor check` of a folder costs from its start to its end, beside reading alone."""
    with tempfile.TemporaryDirectory() as folder:
        long = written(trace, Path(folder) / "long", rows // 4)
        for what in ("import", "read", "check"):
            told = in_own_process(what, *([str(long)] if what != "import" else []))
            rate = f"{told['rows'] / told['cpu']:9,.0f} events/s" if "rows" in told else ""
            print(f"{'a process that does: ' + what:44s} {told['cpu']:6.2f} s CPU  {told['megabytes']:5.0f} MB  {rate}")
        for name, path in (("the recording", trace), (f"{rows // 4:,} events", long)):
            print(f"{'preflight monitor check of ' + name:44s} {command(path):6.2f} s CPU, start-up included")


def command(folder: Path) -> float:
    """CPU seconds of the command."""
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "preflight", "monitor", "check", str(folder), "--quiet"]
    subprocess.run(words, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def told_ranks(trace: Path, rows: int) -> None:
    """How checking grows with the ranks, each of which tells of as much."""
    with tempfile.TemporaryDirectory() as folder:
        for world in (1, 2, 4, 8, 16, 32, 64):
            told = in_own_process("check", str(written(trace, Path(folder) / str(world), rows // 250, world)))
            each = told["cpu"] / told["rows"] * 1e6
            name = f"check of {told['rows']:,} events on {world} rank{'s' if world > 1 else ''}"
            print(f"{name:44s} {told['cpu']:6.2f} s CPU  {told['megabytes']:5.0f} MB  {each:6.1f} us an event")


def told_relations(trace: Path, _rows: int) -> None:
    """What each relation costs by itself."""
    print("each relation by itself, microseconds for each iteration:")
    alone(trace)


PARTS: dict[str, Callable[[Path, int], None]] = {
    "inference": told_of_inference,
    "live": told_live,
    "batches": told_batches,
    "whole": told_whole,
    "ranks": told_ranks,
    "relations": told_relations,
}
"""What is measured, by name."""


def _of(told: dict[str, Any]) -> str:
    rate = told["rows"] / told["cpu"]
    return (
        f"{told['cpu']:6.2f} s CPU  {told['megabytes']:5.0f} MB  {rate:9,.0f} events/s  {told['invariants']} invariants"
    )


if __name__ == "__main__":
    main()
