"""Runs the same programs on the virtual GPU under several interpreters and compares what they hold.

Usage: python versions.py PYTHON [PYTHON ...] [--only PATTERN] [--gpu NAME] [-j JOBS] [-o TABLE.md]
The first interpreter is the one that the others are compared with. Programs are those of ``frameworks/`` and some of
``workloads/``. Compared are the bytes asked for after every operator, and the peaks of the caching allocator.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from compare import SILENT, cases, judge
from preflight.catalog.hardware import resolve_gpu

HERE = Path(__file__).resolve().parent
CHOSEN = (
    "attention:gpt-amp-bf16 attention:gpt-bf16-checkpointed attention:vit convolution:resnet18 hub:llama-bf16-fused "
    "mlp:adam mlp:amp-fp16 mlp:average-and-evaluation recurrent:lstm recurrent:lstm-cell"
).split()
"""Workloads that are run beside the programs of ``frameworks/``."""

LEGEND = """Left of the stroke stands the highest number of bytes that were asked for at once, right of it the peak of the allocator's blocks.
`=` means that after every operator as many bytes were live as in the first column.
`≈` means that the peaks are the same, those of the segments too, while the operators are not.
"""


class Seen(msgspec.Struct):
    """What one interpreter saw of one program."""

    trace: list[tuple[str, int]] = []
    peak: int = 0
    reserved: int = 0
    problem: str = ""

    @property
    def live(self) -> int:
        """The largest number of bytes asked for that were live at once."""
        return max((size for _, size in self.trace), default=0)


def programs(pattern: str) -> list[tuple[Path, str]]:
    """Return the programs with their cases."""
    found = [
        (path, case)
        for path in sorted((HERE / "workloads").glob("*.py"))
        for case in cases(path)
        if f"{path.stem}:{case}" in CHOSEN or (pattern and pattern in f"{path.stem}:{case}")
    ]
    found += [(path, "") for path in sorted((HERE / "frameworks").glob("*.py"))]
    return [(path, case) for path, case in found if pattern in named(path, case)]


def named(path: Path, case: str) -> str:
    """Return the name under which a program stands in the table."""
    return f"{path.stem}:{case}" if case else f"{path.parent.name}:{path.stem}"


def version(python: str) -> str:
    """Return the release of PyTorch that an interpreter has, and whether it is built for CUDA."""
    code = (
        "import sys, torch; print(torch.__version__, 'CUDA', torch.version.cuda, 'Python %d.%d' % sys.version_info[:2])"
    )
    ended = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def run(python: str, chosen: list[tuple[Path, str]], card: str) -> list[Seen]:
    """Run programs under an interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        listed = [f"{path}::{case}" for path, case in chosen]
        command = [python, "-W", "ignore", str(HERE / "virtual_side.py"), "--many", folder, card, *listed]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src"), "HF_HUB_OFFLINE": "1"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        last = (ended.stderr.strip().splitlines() or ["no answer"])[-1]
        found = [_read(Path(folder), number, last) for number in range(len(chosen))]
    for (path, case), seen in zip(chosen, found, strict=True):
        told = seen.problem or f"{seen.live:,} / {seen.peak:,} / {seen.reserved:,}"
        print(f"{named(path, case)}, {python}: {told}", file=sys.stderr, flush=True)
    return found


def _read(folder: Path, number: int, last: str) -> Seen:
    """Return what the program of a number wrote; ``last`` is the last thing that the process around it said."""
    result, errors = folder / f"{number}.json", folder / f"{number}.err"
    if not result.exists() or not result.stat().st_size:
        said = errors.read_text(encoding="utf-8").strip().splitlines() if errors.exists() else []
        return Seen(problem=(said or [last])[-1][:160])
    found: dict[str, Any] = json.loads(result.read_bytes())
    seen = found["seen"]
    if seen["outcome"] == "failed":
        return Seen(problem=f"{seen['error']}: {seen['message']}"[:160])
    trace = [(name, size) for name, size in found["trace"] if name not in SILENT]
    return Seen(trace, seen["peak_bytes"], seen["reserved_bytes"])


def cell(seen: Seen, first: Seen) -> str:
    """Return what stands in the table for one interpreter."""
    if seen.problem:
        return seen.problem.replace("|", "/")
    text = f"{seen.live:,} / {seen.peak:,}"
    if seen is first or first.problem:
        return text
    if seen.trace == first.trace:
        return f"{text} ="
    if (seen.live, seen.peak, seen.reserved) == (first.live, first.peak, first.reserved):
        return f"{text} ≈"
    return f"**{text}** ({seen.live / first.live - 1:+.2%})"


def main() -> int:
    """Run all programs under all interpreters; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+")
    parser.add_argument("--only", default="", help="a part of the names of the programs to be run")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    gpu = resolve_gpu(given.gpu)
    card = {"name": gpu.title, "memory_bytes": 1 << 40, "capability": list(gpu.compute_capability or (9, 0))}
    about = json.dumps({**card, "multiprocessors": gpu.sms})
    titles = [version(python) for python in given.python]
    lines = [f"| program | {' | '.join(titles)} |", f"| --- |{' ---: |' * len(titles)}"]
    reasons = []
    chosen = programs(given.only)
    with ThreadPoolExecutor(given.jobs) as pool:
        tried = list(pool.map(lambda python: run(python, chosen, about), given.python))
    for at, (path, case) in enumerate(chosen):
        rows = [found[at] for found in tried]
        lines.append(f"| {named(path, case)} | {' | '.join(cell(seen, rows[0]) for seen in rows)} |")
        for title, seen in zip(titles[1:], rows[1:], strict=True):
            if not seen.problem and not rows[0].problem and seen.live != rows[0].live:
                why = judge("", rows[0].trace, seen.trace).why
                reasons.append(f"- {named(path, case)}, {title.split()[0]}: {why or 'the order of the operators'}")
    text = f"# Releases of PyTorch\n\nMade by `versions.py`: {platform.machine()}, virtual {gpu.title}.\n{LEGEND}\n"
    text += "\n".join(lines) + "\n"
    if reasons:
        text += "\n".join(["", "Where peaks differ, the operators at which the difference grows:", "", *reasons, ""])
    if given.output:
        Path(given.output).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
