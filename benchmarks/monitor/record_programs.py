"""Records programs and says whether recording changed anything that they print: the ground of every other figure.

    python benchmarks/monitor/record_programs.py OUT [NAME ...] [--bugs | --fixed] [--plain] [-j 1]

Records each healthy program (or, with ``--bugs``, each program with a bug; with ``--fixed``, its correct twin) into
OUT/NAME. With ``--plain`` each is run without the recorder first, and what it prints on stdout and stderr, and its exit
code, are compared. A program whose trace is there already is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from healthy_programs import command as command_of

HERE = Path(__file__).resolve().parent
_TIMES = re.compile(
    r"\d+(?:\.\d+)?(?: ?(?:s|ms|sec|seconds|it/s|samples/s|tok/s)\b|(?=it/s|s/it))|\b\d+:\d\d\b|W\d{4} [\d:.]+|\[rank\d\]:"
)


def run(command: list[str], environment: dict[str, str]) -> tuple[int, str, str, float]:
    """Run a command to its end: exit code, stdout, stderr, seconds."""
    began = time.monotonic()
    try:
        told = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=240, cwd=environment["CASE"]
        )
    except subprocess.TimeoutExpired:
        return 124, "", "", 240.0
    return told.returncode, told.stdout, told.stderr, time.monotonic() - began


def settled(text: str) -> list[str]:
    """Lines without times, in an order that does not depend on which rank was first."""
    return sorted(line for line in (_TIMES.sub("#", line).strip() for line in text.splitlines()) if line)


def record(file: Path, out: Path, arguments: list[str], plain: bool) -> str:
    """Record one program and say how that went."""
    from preflight.monitor.collect.settings import Settings, detail
    from preflight.monitor.live.launch import environment

    folder = out / file.stem
    if any(folder.glob("*.trace")):
        return f"{file.stem}: there already"
    folder.mkdir(parents=True, exist_ok=True)
    case = folder / "case"
    case.mkdir(exist_ok=True)
    own = {**os.environ, "OMP_NUM_THREADS": "1", "CASE": str(case)}
    command = command_of(file, arguments)
    first = run(command, own) if plain else None
    if first is not None:
        subprocess.run(["rm", "-rf", str(case)], check=True)
        case.mkdir()
    code, stdout, stderr, seconds = run(
        command, environment(Settings(str(folder), **detail(None, None)._asdict()), own)
    )
    (folder / "stdout").write_text(stdout)
    (folder / "stderr").write_text(stderr)
    words = [f"{seconds:.1f} s"]
    if code:
        words.append(f"EXIT CODE {code}: {stderr.strip().splitlines()[-1] if stderr.strip() else ''}")
    if first is not None:
        if first[0] != code:
            words.append(f"exit code was {first[0]}")
        if settled(first[1]) != settled(stdout):
            words.append("STDOUT DIFFERS")
        if settled(first[2]) != settled(stderr):
            words.append("STDERR DIFFERS")
    return f"{file.stem}: " + ", ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--bugs", action="store_true")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--arguments", default="", help="passed to each program: '--seed 3'")
    given = parser.parse_args()
    room = HERE / ("bugs" if given.bugs or given.fixed else "healthy")
    files = [file for file in sorted(room.glob("*.py")) if not given.names or file.stem in given.names]
    arguments = (["--fixed"] if given.fixed else []) + shlex.split(given.arguments)
    with ThreadPoolExecutor(given.jobs) as pool:
        for line in pool.map(lambda file: record(file, given.out, arguments, given.plain), files):
            print(line, flush=True)


if __name__ == "__main__":
    main()
