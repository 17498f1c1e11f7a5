"""Holds the dry run's live bytes against those of real tensors on the CPU, operator by operator.

Usage: python compare.py [PATTERN] [--gpu NAME] [-o TABLE.md] [--list]
With -o the rows are kept beside the table (TABLE.csv), so that a part can be run again without the rest.
PATTERN chooses workloads by a part of ``program:case``. Every workload runs twice, each time in a process of its own:
on the virtual GPU (``virtual_side.py``) and really, on the CPU (``cpu_side.py``, which says what is made alike).
Compared are the bytes asked for, before any allocator rounds them, after every operator that both sides ran.
Where ``../gpu/measured.toml`` has a workload, it runs once more on the virtual GPU of that file, and what the allocator
handed out and held at most is compared with what was measured there (column GPU).
"""

from __future__ import annotations

import argparse
import ast
import csv
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run

HERE = Path(__file__).resolve().parent
MEASURED = HERE.parent / "gpu" / "measured.toml"
SILENT = frozenset(
    (
        "_record_function_enter_new",
        "_record_function_exit",
        "detach",
        "detach_",
        "lift_fresh",
        "_has_same_storage_numel",
    )
)
"""Operators that make nothing, and that one side may leave out."""
WINDOW = 60


class Row(msgspec.Struct):
    """The comparison of one workload."""

    workload: str
    operators: int = 0
    matched: int = 0
    cpu_peak: int = 0
    virtual_peak: int = 0
    largest: float = 0.0
    equal: float = 0.0
    why: str = ""
    problem: str = ""
    gpu: str = "not measured"
    date: str = ""


def cases(program: Path) -> list[str]:
    """Return the names of a program's cases, as its table has them."""
    for node in ast.parse(program.read_text(encoding="utf-8")).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == "CASES":
            assert isinstance(node, (ast.Assign, ast.AnnAssign))
            assert isinstance(node.value, ast.Dict)
            return [ast.literal_eval(key) for key in node.value.keys if key is not None]
    return []


def workloads() -> list[tuple[Path, str]]:
    """Return all programs with their cases."""
    return [(path, case) for path in sorted((HERE / "workloads").glob("*.py")) for case in cases(path)]


def run(side: str, program: Path, case: str, *options: str) -> dict[str, Any]:
    """Run one side; return what it wrote.

    Raises:
        RuntimeError: It wrote nothing; the text is its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [sys.executable, "-W", "ignore", str(HERE / side), result, *options, str(program), case]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src"), "HF_HUB_OFFLINE": "1"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500, check=False)
        if not os.path.exists(result) or not os.path.getsize(result):
            raise RuntimeError((ended.stderr.strip().splitlines() or ["no answer"])[-1][:200])
        found: dict[str, Any] = json.loads(Path(result).read_bytes())
        return found


def align(first: list[Any], second: list[Any]) -> list[tuple[int, int]]:
    """Return the pairs of indices at which both sides ran the same operator, from the start to the end.

    It goes backwards: the ends are the same, while the model's construction is on the host on one side only.
    """
    pairs: list[tuple[int, int]] = []
    i, j = len(first) - 1, len(second) - 1
    while i >= 0 and j >= 0:
        if first[i][0] == second[j][0]:
            pairs.append((i, j))
            i, j = i - 1, j - 1
            continue
        found = _next_match(first, second, i, j)
        if found is None:
            break
        i, j = i - found[0], j - found[1]
    return pairs[::-1]


def _next_match(first: list[Any], second: list[Any], i: int, j: int) -> tuple[int, int] | None:
    for total in range(1, WINDOW):
        for a in range(total + 1):
            b, ends = total - a, 3
            if i - a - ends < 0 or j - b - ends < 0:
                continue
            if all(first[i - a - k][0] == second[j - b - k][0] for k in range(ends)):
                return a, b
    return None


def judge(workload: str, cpu: list[Any], virtual: list[Any]) -> Row:
    """Compare two traces of (operator, live bytes)."""
    cpu = [entry for entry in cpu if entry[0] not in SILENT]
    virtual = [entry for entry in virtual if entry[0] not in SILENT]
    pairs = align(cpu, virtual)
    row = Row(workload, len(virtual), len(pairs))
    if not pairs:
        row.problem = "no operator in common"
        return row
    start = next((k for k, (i, j) in enumerate(pairs) if virtual[j][0] != "_to_copy"), 0)
    pairs = pairs[start:]
    row.cpu_peak = max(entry[1] for entry in cpu[pairs[0][0] :])
    row.virtual_peak = max(entry[1] for entry in virtual[pairs[0][1] :])
    differences = [virtual[j][1] - cpu[i][1] for i, j in pairs]
    row.largest = max(map(abs, differences)) / row.cpu_peak
    row.equal = sum(not d for d in differences) / len(differences)
    row.why = _reasons(cpu, virtual, pairs, differences)
    return row


def _reasons(cpu: list[Any], virtual: list[Any], pairs: list[tuple[int, int]], differences: list[int]) -> str:
    """Return the operators at which the difference grows most."""
    grown: Counter[str] = Counter()
    for k in range(1, len(pairs)):
        change = differences[k] - differences[k - 1]
        if change:
            only_cpu = [cpu[i][0] for i in range(pairs[k - 1][0] + 1, pairs[k][0])]
            only_virtual = [virtual[j][0] for j in range(pairs[k - 1][1] + 1, pairs[k][1])]
            name = virtual[pairs[k][1]][0]
            if only_cpu or only_virtual:
                name = f"{'+'.join(dict.fromkeys(only_cpu)) or '-'} / {'+'.join(dict.fromkeys(only_virtual)) or '-'}"
            grown[name[:120]] += change if change > 0 else 0
    return "; ".join(f"{name} {size:+,}" for name, size in grown.most_common(2) if size)


def compare(program: Path, case: str, card: str) -> Row:
    """Run one workload on both sides."""
    workload = f"{program.stem}:{case}"
    try:
        virtual = run("virtual_side.py", program, case, card)
        if virtual["seen"]["outcome"] == "failed":
            return Row(workload, problem=f"dry run: {virtual['seen']['error']}: {virtual['seen']['message']}"[:200])
        cpu = run("cpu_side.py", program, case)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return Row(workload, problem=str(error)[:200])
    return judge(workload, cpu["trace"], virtual["trace"])


def measured(path: Path = MEASURED) -> tuple[str, dict[str, Any]]:
    """Return the GPU of the file of real measurements, and its rows by workload; nothing where there is no file."""
    if not path.exists():
        return "", {}
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    had = tomllib.loads(path.read_text(encoding="utf-8"))
    return had["gpu"], {row["name"]: row for row in had.get("workload", [])}


def beside(real: dict[str, Any], allocated: int, reserved: int, full: bool) -> str:
    """Return the cell of a workload that a real GPU ran."""
    if "problem" in real or "allocated" not in real:
        return f"not measured: {real.get('problem', 'it ran without a GPU')}"
    if "oom_step" in real or full:
        return f"really {'OOM' if 'oom_step' in real else 'fits'}, dry run {'OOM' if full else 'fits'}"
    return f"allocated {allocated / real['allocated'] - 1:+.2%}, reserved {reserved / real['reserved'] - 1:+.2%}"


def on_gpu(program: Path, case: str, name: str, real: dict[str, Any]) -> str:
    """Run a workload on the virtual GPU that a real one was measured on; return its cell."""
    gpu = resolve_gpu(name)
    job = Job(
        script=str(program),
        root=str(program.parent),
        gpu=gpu,
        capacity_bytes=gpu.memory_bytes,
        arguments=(case,),
        steps=100,
    )
    seen = dry_run(job)
    if seen.outcome == "failed":
        return f"dry run: {seen.error}: {seen.message}"[:200]
    return beside(real, seen.peak_bytes, seen.reserved_bytes, seen.full is not None)


def kept(path: Path) -> dict[str, Row]:
    """Return the rows of an earlier run."""
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        return {row["workload"]: msgspec.convert(row, Row, strict=False) for row in csv.DictReader(file)}


def keep(path: Path, rows: Iterable[Row]) -> None:
    """Write the rows."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in sorted(rows, key=lambda row: row.workload))


def table(rows: list[Row], gpu: str) -> str:
    """Return the table as Markdown."""
    import torch

    good = [row for row in rows if not row.problem]
    errors = sorted(abs(row.virtual_peak / row.cpu_peak - 1) for row in good)
    dates = sorted({row.date for row in rows})
    lines = [
        "# Live bytes: dry run against CPU",
        "",
        f"PyTorch {torch.__version__}, {platform.machine()}, virtual {gpu}; {len(rows)} workloads, "
        f"run {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.",
        "",
    ]
    if errors:
        lines[3:3] = [
            f"Peak of live bytes, dry run against CPU: median difference {errors[len(errors) // 2]:.3%}, "
            f"largest {errors[-1]:.2%}; {sum(e == 0 for e in errors)} of {len(errors)} equal to the byte, "
            f"{sum(e <= 0.01 for e in errors)} within 1 %.",
        ]
    lines += [
        "| workload | operators (in common) | peak CPU, bytes | peak dry run, bytes | ratio | moments equal | "
        "largest difference | GPU | where they differ (CPU / dry run) |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        if row.problem:
            lines.append(f"| {row.workload} | | | | | | | {row.gpu} | {row.problem} |")
            continue
        lines.append(
            f"| {row.workload} | {row.operators:,} ({row.matched:,}) | {row.cpu_peak:,} | {row.virtual_peak:,} | "
            f"{row.virtual_peak / row.cpu_peak:.4f} | {row.equal:.1%} | {row.largest:.2%} | {row.gpu} | {row.why} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("-o", "--output")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name the workloads and end")
    given = parser.parse_args()
    chosen = [(program, case) for program, case in workloads() if given.pattern in f"{program.stem}:{case}"]
    if given.list:
        print("\n".join(f"{program.stem}:{case}" for program, case in chosen))
        return 0
    gpu = resolve_gpu(given.gpu)
    card = {"name": gpu.title, "memory_bytes": 1 << 40, "capability": list(gpu.compute_capability or (9, 0))}
    about = json.dumps({**card, "multiprocessors": gpu.sms})
    (real_gpu, real), output = measured(), Path(given.output or "-")
    rows = kept(output.with_suffix(".csv")) if given.output else {}
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(lambda chosen: compare(*chosen, about), chosen):
            row.date = datetime.date.today().isoformat()
            rows[row.workload] = row
            if given.output:
                keep(output.with_suffix(".csv"), rows.values())
            if row.workload in real:
                part, _, case = row.workload.partition(":")
                row.gpu = on_gpu(HERE / "workloads" / f"{part}.py", case, real_gpu, real[row.workload])
            ratio = (
                f"{row.virtual_peak / row.cpu_peak:.4f} equal {row.equal:.1%} max {row.largest:.2%}"
                if row.cpu_peak
                else ""
            )
            print(f"{row.workload}: {row.problem or ratio} {row.why}", file=sys.stderr, flush=True)
    text = table(sorted(rows.values(), key=lambda row: row.workload), gpu.title)
    if given.output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
