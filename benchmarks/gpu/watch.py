"""Records right programs on a GPU, and wrong ones: are they the same with the recorder, and is the right thing said?

Usage: python watch.py [PATTERN] [-o watched.toml] [--together N]
Runs every kind of ``watched.py`` twice without the recorder and once with it, then the faults of
``../monitor/gpt_faults.py`` on the GPU. Told of a right program: whether its output is the same to the bit as without
(``same``; ``steady`` says whether two runs without are), its exit code, how much more memory it had at its peak
(``more_mib``), and the relations that alarmed. Of a fault:
the relations that alarmed, and at which step first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import as_toml, machine

HERE = Path(__file__).resolve().parent
FAULTS = HERE.parent / "monitor" / "gpt_faults.py"


def ran(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, or give it up after five minutes."""
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    except subprocess.TimeoutExpired as error:
        told = [part.decode() if isinstance(part, bytes) else part or "" for part in (error.stdout, error.stderr)]
        return subprocess.CompletedProcess(command, 124, *told)


def recorded(program: list[str], folder: str, *options: str) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    """Run a program with the recorder; return how it ended, and the alarms."""
    alarms = Path(folder, "alarms.jsonl")
    command = [sys.executable, "-m", "preflight", "monitor", "run", "--alerts", str(alarms), "-o", f"{folder}/trace"]
    ended = ran([*command, *options, "--", sys.executable, *program], folder)
    lines = alarms.read_text(encoding="utf-8").splitlines() if alarms.exists() else []
    return ended, [json.loads(line) for line in lines]


def peak(text: str) -> int:
    """Return the bytes that a program says it had at most, or nought."""
    found = re.search(r"^peak (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def right(kind: str) -> dict[str, Any]:
    """Run a right program without and with the recorder."""
    program = [str(HERE / "watched.py"), kind]
    with tempfile.TemporaryDirectory() as folder:
        first, again = (ran([sys.executable, *program], folder) for _ in range(2))
        ended, alarms = recorded(program, folder)
    found = {
        "name": kind,
        "steady": first.stdout == again.stdout,
        "same": first.stdout == ended.stdout,
        "codes": [first.returncode, ended.returncode],
        "alarms": sorted({alarm["violation"]["relation"] for alarm in alarms}),
        "more_mib": round((peak(ended.stderr) - peak(first.stderr)) / 2**20, 2),
        "waits": [line for line in ended.stderr.splitlines() if line.startswith("waits ") and "preflight" in line],
        "said": [line for line in ended.stderr.splitlines() if line not in first.stderr and "peak " not in line][-3:],
    }
    if first.returncode:
        found["problem"] = (first.stderr.strip().splitlines() or ["no answer"])[-1][:200]
    return found


def wrong(fault: str) -> dict[str, Any]:
    """Run a fault with the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        ended, alarms = recorded([str(FAULTS), "--fault", fault, "--device", "cuda"], folder)
    steps = [alarm["violation"]["first_step"] for alarm in alarms]
    found = {
        "name": f"fault {fault}",
        "codes": [ended.returncode],
        "alarms": sorted({alarm["violation"]["relation"] for alarm in alarms}),
        "first": min(steps) if steps else -1,
        "said": ended.stderr.strip().splitlines()[-3:],
    }
    return found


def main() -> int:
    """Run the chosen ones and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-o", "--output", default=str(HERE / "watched.toml"))
    parser.add_argument("--together", type=int, default=4)
    given = parser.parse_args()
    source = (HERE / "watched.py").read_text(encoding="utf-8")
    kinds = re.findall(r'^    "(\w+)",$', source, re.MULTILINE)
    faults = ["none", *re.findall(r"^# fault: (\w+);", FAULTS.read_text(encoding="utf-8"), re.MULTILINE)]
    work = [(right, kind) for kind in kinds if given.pattern in kind]
    work += [(wrong, fault) for fault in faults if given.pattern in f"fault {fault}"]
    rows = []
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    with ThreadPoolExecutor(given.together) as pool:
        for found in pool.map(lambda pair: pair[0](pair[1]), work):
            rows.append(found)
            print(json.dumps(found), file=sys.stderr, flush=True)
            text = as_toml(machine(), rows, "run", "watch.py")
            Path(given.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
