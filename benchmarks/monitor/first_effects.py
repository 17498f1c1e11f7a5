"""Prove what the programs of `bugs/` say of themselves: run each and its correct twin, and compare their weights.

python benchmarks/monitor/first_effects.py [PROGRAM ...]

After each optimizer step a checksum over the bits of the optimizer's weights is kept.
The weights of the two must not differ before the step that the header names.
Where they never differ (a wrong checkpoint, a wrong evaluation), what the two print must.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BUGS = Path(__file__).resolve().parent / "bugs"

RECORDER = """\
import json, os, runpy, sys, zlib
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
place, program = sys.argv[1:3]
sums = []
def keep(optimizer, arguments, keywords):
    total = 0
    for group in optimizer.param_groups:
        for weights in group["params"]:
            weights = weights.detach()
            weights = weights.to_local() if hasattr(weights, "to_local") else weights
            total = zlib.crc32(weights.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), total)
    sums.append(total)
register_optimizer_step_post_hook(keep)
sys.argv = sys.argv[2:]
try:
    runpy.run_path(program, run_name="__main__")
finally:
    with open(f"{place}.{os.environ.get('RANK', '0')}", "w") as file:
        json.dump(sums, file)
"""


def run(program: Path, launch: str | None, options: list[str], folder: Path) -> tuple[int, str, dict[str, list[int]]]:
    """Return the exit status, what was printed (in the order of the alphabet) and each rank's checksums."""
    recorder = folder / "recorder.py"
    recorder.write_text(RECORDER)
    python = [sys.executable, str(recorder)]
    if launch:
        python = [sys.executable, "-m", "torch.distributed.run", *launch.split()[1:], str(recorder)]
    place = folder / ("fixed" if options else "bug")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [*python, str(place), str(program), *options], capture_output=True, text=True, timeout=600, env=environment
    )
    sums = {path.suffix: json.loads(path.read_text()) for path in folder.glob(f"{place.name}.*")}
    return done.returncode, "\n".join(sorted(done.stdout.splitlines())), sums


def first_difference(bug: dict[str, list[int]], fixed: dict[str, list[int]]) -> int | None:
    """Return the first step after which some rank's weights differ, or at which only one of the two steps."""
    found = []
    for rank in bug.keys() | fixed.keys():
        one, other = bug.get(rank, []), fixed.get(rank, [])
        found += [step for step, (a, b) in enumerate(zip(one, other, strict=False)) if a != b][:1]
        if len(one) != len(other):
            found.append(min(len(one), len(other)))
    return min(found, default=None)


def judge(program: Path) -> str:
    """Run a program and its twin and say in a line how they compare with the header."""
    text = program.read_text(encoding="utf-8")
    said = re.search(r"^# first effect: step (\d+)", text, re.MULTILINE)
    launch = re.search(r"^# launch: (.+)", text, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        bug = run(program, launch and launch[1], [], Path(folder))
        fixed = run(program, launch and launch[1], ["--fixed"], Path(folder))
    if bug[0] or fixed[0] or said is None:
        return f"FAIL  exit status {bug[0]}, fixed {fixed[0]}"
    step = first_difference(bug[2], fixed[2])
    if step is None:
        return "ok    weights alike, output differs" if bug[1] != fixed[1] else "FAIL  weights and output alike"
    if step < int(said[1]):
        return f"FAIL  weights differ from step {step} on, the header says {said[1]}"
    return f"ok    weights differ from step {step} on, the header says {said[1]}"


def main() -> int:
    """Judge the programs named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path)
    programs = parser.parse_args().programs or sorted(BUGS.glob("*.py"))
    failed = 0
    for program in programs:
        verdict = judge(program.resolve())
        failed += verdict.startswith("FAIL")
        print(f"{program.stem:36s} {verdict}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
