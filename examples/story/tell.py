"""Tell the story: run the commands of README.md in a copy of this folder, and show what they print.

    python tell.py            the whole story; needs PyTorch from part 3 on
    python tell.py 1 2        these parts (what an earlier part leaves behind, a later one may need)
    python tell.py --full     every line, not only those that README.md shows

Of each command, the lines that README.md shows are told, as they were printed here; ``...`` stands for the others.
The exit code is 1 where README.md shows a line that was not printed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OMITTED = "..."
LEFT_OUT = ("__pycache__", "README.md", "tell.py")
MODULES = {"preflight": "-m preflight", "torchrun": "-m torch.distributed.run", "python": ""}


def parts(text):
    """The parts of a page by their number: a title, and what follows in order, prose and commands with their lines."""
    told = {}
    for number, title, body in re.findall(r"(?ms)^## (\d+)\. ([^\n]+)\n(.*?)(?=^## |\Z)", text):
        pieces = []
        for prose, block in re.findall(r"(?ms)(.*?)(?:^```console\n(.*?)^```$|\Z)", body):
            if prose.strip():
                pieces.append((None, prose.strip()))
            for line in block.splitlines():
                if line.startswith("$ "):
                    pieces.append((line[2:], []))
                else:
                    pieces[-1][1].append(line.rstrip())
        told[int(number)] = (title, pieces)
    return told


def selected(shown, printed):
    """The printed lines that are shown, with ``...`` between them; and the first shown line that was not printed."""
    lines, at, free = [], 0, False
    for line in shown:
        if line == OMITTED:
            free = True
            lines.append(line)
            continue
        # The end of a line may be left out, its beginning may not.
        places = range(at, len(printed) if free else min(at + 1, len(printed)))
        found = next((n for n in places if printed[n] == line or (line and printed[n].startswith(line))), None)
        if found is None:
            return lines, line
        lines.append(printed[found])
        at, free = found + 1, False
    if shown and not free and at < len(printed):
        return lines, f"(nothing more; printed: {printed[at]})"
    return lines, None


def run(command, shown, folder, environment, full):
    """Run a command in the folder; return its exit code, and what is wrong with what it printed or None."""
    print(f"$ {command}", flush=True)
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    # A watched program prints what it prints, and the monitor speaks beside it.
    output = done.stdout + done.stderr if command.startswith("preflight monitor") else done.stdout
    printed = [line.rstrip() for line in output.splitlines()]
    lines, missing = selected(shown, printed)
    if done.returncode not in (0, 1, 3):
        printed, missing = [*printed, done.stderr], f"exit code {done.returncode}"
    for line in printed if full or missing else lines:
        print(line, flush=True)
    return done.returncode, missing


def prepared(place):
    """A copy of this folder in ``place``, and an environment whose commands are those of the Python that tells."""
    folder, programs = place / "story", place / "bin"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    programs.mkdir()
    for name, options in MODULES.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "PREFLIGHT_RUN")}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return folder, {**kept, "PATH": path, "COLUMNS": "80", "LC_ALL": "C.UTF-8"}


def tell(told, numbers, place, full):
    """Tell the parts in a copy of this folder below ``place``; return what README.md shows and was not printed."""
    folder, environment = prepared(place)
    wrong, code = [], 0
    for number in numbers:
        title, pieces = told[number]
        print(f"\n{number}. {title}\n{'=' * (len(title) + 3)}", flush=True)
        for command, shown in pieces:
            print()
            if command is None:
                print(shown, flush=True)
                continue
            if command == "echo $?":
                print(f"$ {command}\n{code}")
                missing = None if shown == [str(code)] else f"exit code {' '.join(shown)}"
            else:
                code, missing = run(command, shown, folder, environment, full)
            if missing is not None:
                wrong.append(f"$ {command}\nREADME.md shows what was not printed: {missing}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=int, nargs="*", metavar="PART")
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    told = parts((HERE / "README.md").read_text(encoding="utf-8"))
    if not set(args.parts) <= set(told):
        parser.error(f"the parts are {', '.join(map(str, sorted(told)))}")
    with tempfile.TemporaryDirectory() as place:
        wrong = tell(told, args.parts or sorted(told), Path(place), args.full)
    for one in wrong:
        print(f"\n{one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
