"""Runs the workloads really, on a machine with a CUDA GPU, and writes down what PyTorch's allocator reports.

Usage: python measure.py [PATTERN] [-o measured.toml] [--device cuda|cpu] [--limit-mib N] [--together N]
Needs PyTorch alone (and transformers for models of the hub). Every workload of ``../dryrun/workloads`` (``program:case``,
small) and every one of ``programs`` (whole scripts of the sizes that people train) runs in a process of its own.
Rows that the file has already are kept unless they are run again. --limit-mib gives PyTorch so much of the GPU, so that
a workload runs out of memory on purpose. With --together, so many run at the same time, and no seconds are written.
On the CPU there are steps and seconds, and no memory.
``../dryrun/compare.py`` and ``predict.py`` read the file.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import platform
import runpy
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "dryrun" / "workloads"
PROGRAMS = HERE / "programs"


def workloads(pattern: str) -> list[str]:
    """Return the names of the programs and of the workloads, ``program:case``, that hold the pattern, or the one that it is."""
    names = [program.stem for program in sorted(PROGRAMS.glob("*.py"))]
    for program in sorted(WORKLOADS.glob("*.py")):
        for node in ast.parse(program.read_text(encoding="utf-8")).body:
            target = node.target if isinstance(node, ast.AnnAssign) else None
            if isinstance(node, ast.Assign):
                target = node.targets[0]
            if isinstance(target, ast.Name) and target.id == "CASES":
                assert isinstance(node, (ast.Assign, ast.AnnAssign))
                assert isinstance(node.value, ast.Dict)
                names += [f"{program.stem}:{ast.literal_eval(key)}" for key in node.value.keys if key is not None]
    return [pattern] if pattern in names else [name for name in names if pattern in name]


def run(name: str, limit_mib: int) -> dict[str, Any]:
    """Run a workload in this process; return what was measured."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    gpu = torch.cuda.is_available()
    if gpu and limit_mib:
        torch.cuda.set_per_process_memory_fraction((limit_mib << 20) / torch.cuda.get_device_properties(0).total_memory)
    ends: list[Any] = []
    optimizers: set[int] = set()

    def ended(optimizer: Any, *_: Any) -> None:
        optimizers.add(id(optimizer))
        # An event does not make the host wait, so that host and GPU work side by side as they do without it.
        ends.append(torch.cuda.Event(enable_timing=True) if gpu else time.perf_counter())
        if gpu:
            ends[-1].record()

    register_optimizer_step_post_hook(ended)
    program, _, case = name.partition(":")
    folder = WORKLOADS if case else PROGRAMS
    sys.argv = [f"{program}.py", *([case] if case else [])]
    sys.path.insert(0, str(folder))
    found: dict[str, Any] = {"name": name}
    try:
        runpy.run_path(str(folder / f"{program}.py"), run_name="__main__")
    except torch.OutOfMemoryError:
        found["oom_step"] = len(ends)
    found["steps"] = len(ends)
    if len(optimizers) > 1:
        found["optimizers"] = len(optimizers)  # that take turns: a step of the training is as many of theirs
    if len(ends) > 2:
        if gpu:
            torch.cuda.synchronize()
            seconds = [a.elapsed_time(b) / 1e3 for a, b in pairwise(ends)]
        else:
            seconds = [b - a for a, b in pairwise(ends)]
        # The first steps choose kernels and make the optimizer's state.
        found["seconds_per_step"] = round(statistics.median(seconds[min(2, len(seconds) - 1) :]), 6)
    if gpu:
        found["allocated"] = torch.cuda.max_memory_allocated()
        found["reserved"] = torch.cuda.max_memory_reserved()
        found["requested"] = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    return found


def machine() -> dict[str, Any]:
    """Return what the figures hang on: the GPU, versions, the date."""
    import torch

    told: dict[str, Any] = {"date": datetime.date.today().isoformat(), "torch": torch.__version__}
    told["python"] = platform.python_version()
    told["gpu"] = "none"
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        told |= {"gpu": properties.name, "memory": properties.total_memory, "cuda": torch.version.cuda or ""}
        told["capability"] = f"{properties.major}.{properties.minor}"
        told["cudnn"] = torch.backends.cudnn.version() or 0
    try:
        import transformers

        told["transformers"] = transformers.__version__
    except ImportError:
        pass
    return told


def as_toml(told: dict[str, Any], rows: list[dict[str, Any]], table: str = "workload", by: str = "measure.py") -> str:
    """Return the file: what the machine is, then a table for each row."""
    lines = [f"# Written by {by}."]
    lines += [f"{key} = {json.dumps(value)}" for key, value in told.items()]
    for row in sorted(rows, key=lambda row: row["name"]):
        lines += ["", f"[[{table}]]", *(f"{key} = {json.dumps(value)}" for key, value in row.items())]
    return "\n".join(lines) + "\n"


def written(path: Path) -> dict[str, Any]:
    """Return what a file holds."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))


def kept(path: Path, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that the file has of the same GPU and release of PyTorch."""
    if not path.exists():
        return []
    had = written(path)
    same = all(had.get(key) == told.get(key) for key in ("gpu", "torch"))
    return list(had.get("workload", [])) if same else []


def apart(name: str, device: str, limit_mib: int) -> dict[str, Any]:
    """Run a workload in a process of its own."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"} | ({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name, "--limit-mib", str(limit_mib)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    try:
        found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        found = {"name": name, "problem": (ended.stderr.strip().splitlines() or ["no answer"])[-1][:200]}
    return found


def main() -> int:
    """Measure the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-o", "--output", default=str(HERE / "measured.toml"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--limit-mib", type=int, default=0)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(given.one, given.limit_mib)))
        return 0
    if given.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    told, path = machine(), Path(given.output)
    if given.device == "cuda" and told["gpu"] == "none":
        parser.error("this PyTorch sees no GPU; --device cpu runs the workloads without one")
    rows = {row["name"]: row for row in kept(path, told)}
    names = workloads(given.pattern)
    with ThreadPoolExecutor(max(1, given.together)) as pool:
        for found in pool.map(lambda name: apart(name, given.device, given.limit_mib), names):
            if given.together > 1:
                found.pop("seconds_per_step", None)
            rows[found["name"]] = found
            print(json.dumps(found), file=sys.stderr, flush=True)
            path.write_text(as_toml(told, list(rows.values())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
