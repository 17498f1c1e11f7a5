"""The healthy reference programs: how each is launched, which are held out, the list in their README, and running them.

    python benchmarks/monitor/healthy_programs.py                      write healthy/README.md
    python benchmarks/monitor/healthy_programs.py run [NAME ...] [-- PROGRAM ARGUMENTS]

A program is started by `python FILE` unless a comment `# launch: torchrun ...` near its top says otherwise.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "healthy"
HELDOUT = FOLDER / "HELDOUT"
README = FOLDER / "README.md"
HEADER = "# launch: "
LAUNCHERS = ("python", "torchrun", "accelerate")
HEAD_LINES = 12
"""A launch header stands within so many lines of the top."""


def programs() -> list[Path]:
    """Return the programs, sorted by name."""
    return sorted(FOLDER.glob("*.py"))


def heldout() -> list[str]:
    """Return the names of the programs that no shipped invariant may be built from."""
    return HELDOUT.read_text(encoding="utf-8").split()


def summary(path: Path) -> str:
    """Return the first line of the program's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def launch(path: Path) -> list[str]:
    """Return the words in front of the file's name, as its header says: `["python"]` without one."""
    for line in path.read_text(encoding="utf-8").splitlines()[:HEAD_LINES]:
        if line.startswith(HEADER):
            return shlex.split(line.removeprefix(HEADER))
    return ["python"]


def command(path: Path, arguments: list[str], python: str = sys.executable) -> list[str]:
    """Return the command that runs the program under an interpreter; launchers are run as its modules."""
    words = launch(path)
    modules = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}
    first = [python, "-m", modules[words[0]]] if words[0] in modules else [python]
    return [*first, *words[1:], str(path), *arguments]


def listing() -> str:
    """Return the README: what the programs are for, and a table of them."""
    out = set(heldout())
    rows = [
        f"| `{path.name}` | {summary(path).rstrip('.')} | `{' '.join(launch(path))}` | {'yes' if path.stem in out else ''} |"
        for path in programs()
    ]
    return (
        "# Healthy reference programs\n\n"
        f"{len(rows)} correct training programs of different kinds, each in one file and in its own author's habits.\n"
        "The shipped invariants of `preflight monitor` are made from them, and no alarm may be raised on any of them.\n"
        "Each runs on a CPU in seconds, makes its own data, takes `--seed` and `--steps` (most take `--size`), "
        "prints its loss and exits 0.\n"
        "A comment `# launch: ...` near the top says how it is started when that is not `python FILE`.\n\n"
        f"The {len(out)} programs named in `HELDOUT` are kept out when the shipped invariants are built: "
        "they validate them.\n\n"
        "`python benchmarks/monitor/healthy_programs.py` writes this page; "
        "`python benchmarks/monitor/healthy_programs.py run` runs the programs.\n\n"
        "| File | What it is | Started by | Held out |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def run(names: list[str], arguments: list[str]) -> int:
    """Run the programs one after the other; return how many failed."""
    chosen = [path for path in programs() if not names or path.stem in names]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    failed = 0
    for path in chosen:
        before, started = os.times(), time.perf_counter()
        with tempfile.TemporaryDirectory() as where:
            done = subprocess.run(command(path, arguments), cwd=where, env=environment, capture_output=True, text=True)
        spent = os.times()
        cpu = spent.children_user + spent.children_system - before.children_user - before.children_system
        failed += done.returncode != 0
        print(f"{path.stem:32} exit {done.returncode} cpu {cpu:5.1f} s wall {time.perf_counter() - started:5.1f} s")
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
    print(f"{len(chosen)} programs, {failed} failed")
    return failed


def main(words: list[str]) -> int:
    if not words:
        README.write_text(listing(), encoding="utf-8")
        return 0
    if words[0] != "run":
        print(__doc__, file=sys.stderr)
        return 2
    split = words.index("--") if "--" in words else len(words)
    return int(run(words[1:split], words[split + 1 :]) > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
