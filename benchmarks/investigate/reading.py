"""How fast logs are read, beside ripgrep (or ``grep -F``) looking for the same literals in the same files.

What is measured is everything: candidate lines, signatures with their fields, who wrote a line and when, tracebacks, steps.
A searcher only finds the lines; it is the measure because nothing that reads logs can be faster than finding them.

    python benchmarks/investigate/reading.py                        one core, four kinds of log
    python benchmarks/investigate/reading.py --many 10000 --gigabytes 10 --cores 2     many files (hard links), all cores
    python benchmarks/investigate/reading.py --many 1000 --gigabytes 1 --engine ray    the same over a local cluster

Rates are bytes over processor time of one core, the best of three runs, page cache warm; for many files over wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = "trainer.py engine.py data/loader.py model/transformer.py optimizer.py checkpoint.py utils/timers.py".split()
WORDS = (
    "the model layer weights tensor moved to device shard index file prefetch buffer queue worker thread batch sample tokenizer "
    "vocabulary cache hit miss size bytes ready waiting finished started received sent rank group communicator parameters"
).split()


def ordinary(rng: random.Random) -> Iterator[str]:
    """One line in a hundred is a step, one in a thousand a signature, as logs at level INFO are."""
    number = 0
    while True:
        number += 1
        clock = f"2024-03-01 {number // 36000 % 24:02d}:{number // 600 % 60:02d}:{number // 10 % 60:02d},{number % 1000:03d}"
        if number % 100 == 0:
            loss = 2 + rng.random()
            yield f"{clock} [INFO] trainer.py:88: step: {number // 100} loss: {loss:.4f} grad_norm: 1.2 lr: 1e-4 tps: 12,345\n"
        elif number % 1000 == 7:
            yield f"{clock} [WARNING] engine.py:12: OOM caught: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)\n"
        else:
            words = " ".join(rng.choices(WORDS, k=9))
            yield f"{clock} [INFO] {rng.choice(MODULES)}:{number % 900}: {words} {number}\n"


def interleaved(rng: random.Random) -> Iterator[str]:
    """The same of 64 ranks in one file."""
    for number, line in enumerate(ordinary(rng)):
        yield f"[rank{number % 64}]: {line}"


def steps(rng: random.Random) -> Iterator[str]:
    """Every line is a step of Megatron-LM."""
    number = 0
    while True:
        number += 1
        yield (
            f" iteration {number:8d}/  500000 | consumed samples: {number * 256:12d} | elapsed time per iteration (ms): 4321.5 | "
            f"learning rate: 1.5E-04 | global batch size:   256 | lm loss: {2 + rng.random():.5E} | loss scale: 1.0 | "
            "grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )


def storm(rng: random.Random) -> Iterator[str]:
    """Every line is a signature, of eight ranks in turn."""
    number = 0
    while True:
        number += 1
        rank = number % 8
        yield (
            f"[rank{rank}]:[E301 12:{number // 60 % 60:02d}:{number % 60:02d}.123456 ProcessGroupNCCL.cpp:616] [Rank {rank}] "
            f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
        )


KINDS = {"ordinary": ordinary, "interleaved": interleaved, "steps": steps, "storm": storm}
GOALS = {"ordinary": 300, "interleaved": 300, "storm": 20}


def make(path: Path, kind: str, size: int) -> None:
    """Write a log of a kind and about a size."""
    written = 0
    with path.open("w") as out:
        for line in KINDS[kind](random.Random(7)):
            out.write(line)
            written += len(line)
            if written >= size:
                return


def measured(path: str, engine: str, runs: int) -> dict[str, float]:
    """Read in this process, and tell the best of a few runs."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs import read_logs
    from preflight.source.logs.rules import packed, rules_of

    rules_of(packed(load_signatures()))
    cpu, wall, found = [], [], 0
    for _ in range(runs):
        began, clock = time.process_time(), time.perf_counter()
        reading = read_logs([path], engine=engine)  # type: ignore[arg-type]
        cpu.append(time.process_time() - began)
        wall.append(time.perf_counter() - clock)
        found = len(reading.hits)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "cpu": min(cpu),
        "wall": min(wall),
        "own_mb": own / 1024,
        "child_mb": child / 1024,
        "bytes": reading.bytes_read,
        "files": len(reading.files),
        "hits": found,
        "steps": len(reading.steps),
    }


def in_a_process(path: Path, engine: str, runs: int, cores: set[int]) -> dict[str, float]:
    """Measure in a process of its own, on some cores."""
    command = [sys.executable, __file__, "--measure", str(path), "--engine", engine, "--runs", str(runs)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def searched(path: Path, literals: Path) -> tuple[str, float]:
    """Return the searcher and the processor time in which it counts the lines with one of the literals."""
    tool = "rg" if shutil.which("rg") else "grep"
    command = [tool, "-c", "-a", "-F", "-f", str(literals), str(path)]
    if tool == "rg":
        command.insert(1, "-j1")
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.PIPE, check=False)  # for /dev/null grep stops at the first
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return tool, min(times)


def one_core(folder: Path, megabytes: int) -> None:
    """Each kind of log on one core, beside the searcher."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs.rules import Rules

    signatures = load_signatures()
    rules = Rules(signatures)
    literals = folder / "literals"
    literals.write_bytes(b"\n".join(word for word in rules.words if b"\n" not in word))
    print(f"{len(signatures)} signatures, {len(rules.words)} literals, engine {rules.finder.engine}")
    print(f"{'log':12} {'MB':>5} {'MB/s':>6} {'goal':>5} {'hits':>6} {'steps':>7}   searcher")
    core = {min(os.sched_getaffinity(0))}
    for kind in KINDS:
        path = folder / f"{kind}.log"
        make(path, kind, megabytes << 20)
        size = path.stat().st_size / 1e6
        told = in_a_process(path, "local", 3, core)
        tool, seconds = searched(path, literals)
        goal = GOALS.get(kind, "")
        print(
            f"{kind:12} {size:5.0f} {size / told['cpu']:6.0f} {goal:>5} {told['hits']:6} {told['steps']:7}   "
            f"{tool} {size / max(seconds, 1e-3):.0f} MB/s"
        )
        path.unlink()


def many(folder: Path, count: int, gigabytes: float, engine: str, cores: int) -> None:
    """Many files, made of eight by hard links."""
    size = int(gigabytes * 1e9 / count)
    for number in range(8):
        make(folder / f"original{number}", "ordinary", size)
    logs = folder / "logs"
    for number in range(count):
        node = logs / f"node{number // 8:05d}"
        node.mkdir(parents=True, exist_ok=True)
        os.link(folder / f"original{number % 8}", node / f"rank_{number}.log")
    told = in_a_process(logs, engine, 1, set(sorted(os.sched_getaffinity(0))[:cores]))
    memory = told["own_mb"] + cores * told["child_mb"]
    print(
        f"{told['files']} files, {told['bytes'] / 1e9:.1f} GB, engine {engine}, {cores} cores: {told['wall']:.1f} s, "
        f"{told['bytes'] / told['wall'] / 1e6:.0f} MB/s, at most {memory:.0f} MB of memory, "
        f"{told['hits']} hits, {told['steps']} steps"
    )


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of each log")
    parser.add_argument("--many", type=int, metavar="FILES", help="read so many files instead")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of all of them together")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--measure", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure, options.engine, options.runs)))
        return
    sys.path.insert(0, str(ROOT / "src"))
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        if options.many:
            many(Path(folder), options.many, options.gigabytes, options.engine, options.cores)
        else:
            one_core(Path(folder), options.megabytes)


if __name__ == "__main__":
    main()
