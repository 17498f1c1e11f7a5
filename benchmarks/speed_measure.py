"""What a child process cost: CPU, wall, peak memory; medians and a table."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple


class Cost(NamedTuple):
    """CPU seconds (user and system, children included), wall seconds, and the peak of the process itself."""

    cpu: float
    wall: float
    peak_mb: float
    status: int


def run(command: Sequence[str], core: int | None = None) -> Cost:
    """Run a command to its end, its output into a pipe that is read, and say what it cost.

    Args:
        command: The command.
        core: The one core that it and its children may use.
    """
    # Bytecode is written once and read ever after, as with anything that is installed.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    while process.stdout.read(1 << 16):
        pass
    # wait4 tells of this child alone; getrusage(RUSAGE_CHILDREN) would keep the largest peak of all before it.
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, process.returncode)


def median_of(costs: Sequence[Cost]) -> Cost:
    """The median of each figure; the worst status."""
    return Cost(
        statistics.median(c.cpu for c in costs),
        statistics.median(c.wall for c in costs),
        statistics.median(c.peak_mb for c in costs),
        max(c.status for c in costs),
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table with aligned columns."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in texts
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
