"""Measure the trace store: what a row costs the program, what it takes on disk, and how fast it is read.

    python benchmarks/monitor/store.py [--rows 200000] [--sealed]

CPU time of the process and of its main thread, not wall time, so that a busy machine matters less.
The rows are those of a training loop: calls, states of 52 parameters with exact digests, tensors and scalars.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.writer import Writer
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.reader import Reader
from preflight.monitor.trace.seal import seal

Row = tuple[Any, ...]
PARAMETERS = 52
NAMES = ("forward", "backward", "step", "zero_grad", "module")


def call(q: int, chance: random.Random) -> Row:
    """A call in a loop of 50 calls."""
    where, context = f"train.py:{q % 9 + 30}", "train,grad,autocast=bfloat16"
    t = 10**15 + q * 123_456 + chance.randrange(9999)
    name, module = NAMES[q % 5], f"model.blocks.{q % 17}.fc"
    d, i = chance.randrange(10**6), q // 50
    return (2 * q, 2 * q + 1, t, d, i, i, name, module, -1, 140_000_000, where, context, None, None, None)


def tensor(q: int, chance: random.Random) -> Row:
    """An output of a module."""
    shape, norm = [8, 64, 128], chance.random() * 30
    return (q, q // 50, q // 50, q - 1, f"model.blocks.{q % 17}.fc", "out0", "float32", shape, "cpu", norm, True)


def scalar(q: int, chance: random.Random) -> Row:
    """A loss."""
    return (q, 10**15 + q * 999, q, q, "loss", None, chance.random())


def state(q: int, chance: random.Random) -> Row:
    """The digests of all parameters."""
    norms = [chance.random() for _ in range(PARAMETERS)]
    bits = [chance.getrandbits(63) for _ in range(PARAMETERS)]
    ids = list(range(PARAMETERS))
    return (q, 10**15 + q * 999, q, q, "before_step", "parameter", "exact", ids, norms, bits, None)


MADE: dict[str, tuple[Callable[[int, random.Random], Row], int]] = {
    "call": (call, 1),
    "tensor": (tensor, 1),
    "scalar": (scalar, 1),
    "state": (state, 50),
}
"""How a row of each kind is made, and of how many rows of the others there is one."""


def measure(kind: str, rows: list[Row], folder: Path, pause: int) -> dict[str, Any]:
    """Write rows of one kind and read them; the writer gets time to write after each ``pause`` rows."""
    writer = Writer(folder / "rank-00000.1.trace")
    main = 0
    began = time.process_time_ns()
    put = writer.put
    gc.collect()
    gc.freeze()  # the rows were made before, which no program does; they are not for each collection to go through
    for start in range(0, len(rows), pause):
        part = rows[start : start + pause]
        before = time.thread_time_ns()
        for row in part:
            put(kind, row)
        main += time.thread_time_ns() - before
        while len(writer._rows) > pause:
            time.sleep(0.001)
    writer.close()
    process = time.process_time_ns() - began
    gc.unfreeze()
    size = Path(writer.path).stat().st_size
    began = time.process_time_ns()
    read = sum(block.rows for block in Reader(Path(writer.path)).poll())
    reading = time.process_time_ns() - began
    assert read == len(rows), (read, writer.dropped)
    found = {
        "rows": len(rows),
        "columns": len(TABLES[kind]),
        "main-thread ns per put": round(main / len(rows)),
        "other threads, us per row": round((process - main) / len(rows) / 1e3, 2),
        "bytes per row": round(size / len(rows), 1),
        "rows read per second": round(len(rows) / reading * 1e9),
    }
    Path(writer.path).unlink()
    return found


def sealed(count: int, folder: Path) -> dict[str, Any]:
    """Seal a run of two ranks and read it."""
    for rank in range(2):
        writer = Writer(folder / f"rank-{rank:05d}.{rank}.trace", limit=10**9)
        for kind, row in mixed(count // 2):
            writer.put(kind, row)
            if len(writer._rows) > 50_000:
                writer.flush()
        writer.close((0, 0, 0, 0, "exit", 0, None, 0, 0))
    size = sum(path.stat().st_size for path in folder.iterdir())
    began = time.process_time()
    rows = sum(batch.block.rows for batch in TraceFolder(folder).batches())
    read = time.process_time() - began
    began = time.process_time()
    seal(folder)
    sealing = time.process_time() - began
    began = time.process_time()
    again = sum(batch.block.rows for batch in TraceFolder(folder).batches())
    reading = time.process_time() - began
    assert rows == again
    return {
        "rows": rows,
        "segments, bytes per row": round(size / rows, 1),
        "Parquet, bytes per row": round(sum(path.stat().st_size for path in folder.iterdir()) / rows, 1),
        "rows read from segments per second": round(rows / read),
        "rows sealed per second": round(rows / sealing),
        "rows read from Parquet per second": round(rows / reading),
        "peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def mixed(count: int) -> Iterator[tuple[str, Row]]:
    """Yield rows of all kinds in the proportions of a loop."""
    chance = random.Random(2)
    for q in range(count):
        kind = "state" if q % 50 == 49 else ("call", "tensor", "call", "scalar")[q % 4]
        yield kind, MADE[kind][0](q, chance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--pause", type=int, default=2000, help="rows after which the program does something else")
    parser.add_argument("--sealed", action="store_true", help="seal a run, and read it from Parquet")
    options = parser.parse_args()
    found: dict[str, Any] = {"python": sys.version.split()[0]}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (make, share) in MADE.items():
            chance = random.Random(1)
            rows = [make(q, chance) for q in range(options.rows // share)]
            found[kind] = measure(kind, rows, Path(folder), options.pause)
        if options.sealed:
            found["sealed"] = sealed(options.rows, Path(folder))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
