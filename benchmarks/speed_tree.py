"""How long `preflight check FOLDER` takes over thousands of files, beside torchfix on the same files in the same run.

torchfix is the linter of PyTorch's own project; it is run as it is meant to be, with its default rules.
Both are held to one core and take turns; then preflight is run with more jobs, to see that it scales.

    python benchmarks/speed_tree.py --torchfix path/to/torchfix                  a tree made of examples and the library
    python benchmarks/speed_tree.py --torchfix path/to/torchfix --tree FOLDER    2,000 files drawn from a folder

The tree that is made holds the examples of the rules (scripts that train) and modules of Python's standard library.
Of repositories that train, about three files in four import a library that trains; hence the share.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from multiprocessing import Process
from pathlib import Path

from speed_measure import Cost, median_of, run, table

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-c", "from preflight.cli.main import main; import sys; sys.exit(main())", "check"]
LARGEST = 200_000


def parses(text: str) -> bool:
    """Whether a text is Python, so that both tools have to read all of it."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def examples() -> Iterator[str]:
    """The scripts that the rules carry as examples, and those of the documentation."""
    for path in sorted((ROOT / "src" / "preflight" / "check" / "rules").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import torch" in node.value:
                yield node.value
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path.read_text(encoding="utf-8")


def library() -> Iterator[str]:
    """Modules of the standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" not in path.parts and path.stat().st_size < LARGEST:
            yield path.read_text(encoding="utf-8", errors="replace")


def make_tree(folder: Path, files: int, share: float) -> None:
    """Write examples and modules of the standard library as files, a hundred to a folder.

    Args:
        folder: Where to.
        files: How many.
        share: Which part of them are examples. There are fewer than files, so they come again under other names.
    """
    kinds = [[text for text in texts if parses(text)] for texts in (examples(), library())]
    for texts in kinds:
        random.Random(0).shuffle(texts)
    used = [0, 0]
    for number in range(files):
        kind = 0 if int((number + 1) * share) > int(number * share) else 1
        text = kinds[kind][used[kind] % len(kinds[kind])]
        used[kind] += 1
        path = folder / f"part{number // 100:02}" / f"file{number:05}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")


def copy_tree(folder: Path, source: Path, files: int) -> None:
    """Copy files that parse, drawn by a fixed seed, with their folders."""
    found = [p for p in sorted(source.rglob("*.py")) if p.is_file() and p.stat().st_size < LARGEST]
    random.Random(0).shuffle(found)
    count = 0
    for path in found:
        if count == files:
            break
        if not parses(path.read_text(encoding="utf-8", errors="replace")):
            continue
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        count += 1


def _row(name: str, cost: Cost, base: Cost) -> tuple[object, ...]:
    cpu, wall = cost.cpu / base.cpu, cost.wall / base.wall
    return (
        name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", f"{cpu:.2f}", f"{wall:.2f}", f"{cost.peak_mb:.0f}", cost.status,
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchfix", help="the torchfix command; left out when not given")
    parser.add_argument("--tree", type=Path, help="a folder to draw files from")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.75, help="the part of a made tree that trains; default 0.75")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="*", default=[2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "tree")
        folder.mkdir()
        # In a process of its own: a child's peak memory starts from the size of the process that starts it.
        if given.tree is not None:
            maker = Process(target=copy_tree, args=(folder, given.tree, given.files))
        else:
            maker = Process(target=make_tree, args=(folder, given.files, given.share))
        maker.start()
        maker.join()
        size = sum(path.stat().st_size for path in folder.rglob("*.py"))
        core = min(os.sched_getaffinity(0))
        commands: dict[str, tuple[list[str], int | None]] = {}
        commands["preflight, one core"] = ([*COMMAND, str(folder), "--jobs", "1"], core)
        if given.torchfix:
            commands["torchfix, one core"] = ([given.torchfix, "-j", "1", str(folder)], core)
        for jobs in given.jobs:
            commands[f"preflight, {jobs} jobs"] = ([*COMMAND, str(folder), "--jobs", str(jobs)], None)
        costs: dict[str, list[Cost]] = {label: [] for label in commands}
        for _ in range(given.runs):
            for label, (command, where) in commands.items():
                costs[label].append(run(command, where))
        count = sum(1 for _ in folder.rglob("*.py"))
    base = median_of(costs["preflight, one core"])
    print(f"{count} files, {size / 1e6:.1f} MB, medians of {given.runs} runs\n")
    head = ("", "CPU, s", "wall, s", "CPU / one core's", "wall / one core's", "peak MB of a process", "exit")
    print(table(head, [_row(label, median_of(costs[label]), base) for label in commands]))
    if given.torchfix:
        other = median_of(costs["torchfix, one core"])
        print(
            f"\npreflight takes {base.cpu / other.cpu:.3f} of torchfix's CPU: {other.cpu / base.cpu:.1f} times faster"
        )


if __name__ == "__main__":
    main()
