"""Measures whether what is learnt of good runs alarms on good runs of another configuration: nothing may.

    python benchmarks/monitor/variations.py TRACES [NAME ...] [--programs 8] [--no-record] [--write] [-v]

The configurations of `one_program.py` in its three kinds, and of healthy programs drawn at random (the same ones each
time): another seed, more and fewer steps, another size, half the batch, half the rate (the last two by rewriting the
literals of the source). What is inferred from one run, and from three runs of other seeds, is held against each.
Last, what is inferred from one program is held against all others.
``--write`` writes the table to `variations.md`.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from detect import violations
from healthy_programs import launch
from warm import HERE, Job, record, recorded

from preflight.monitor.learn.infer import infer
from preflight.vocabulary.invariant import Invariant

KINDS = ("classifier", "images", "text")
LEARNT = ("seed 0", "seed 1", "seed 2")
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "seed 0": (),
    "seed 1": ("--seed", "1"),
    "seed 2": ("--seed", "2"),
    "another seed": ("--seed", "7"),
    "longer": ("--steps", "120"),
    "shorter": ("--steps", "12"),
    "larger batch": ("--batch", "64"),
    "smaller batch": ("--batch", "5"),
    "higher rate": ("--rate", "0.02"),
    "lower rate": ("--rate", "0.0001"),
    "wider": ("--width", "64"),
    "deeper": ("--layers", "4"),
    "more data": ("--samples", "1024"),
    "with evaluation": ("--evaluate", "7"),
    "with a checkpoint": ("--save", "20"),
    "resumed": ("--steps", "60"),
}
_LITERALS = {"smaller batch": r"(batch_size ?= ?)(\d+)", "lower rate": r"(lr ?= ?)([\d.]+(?:e-?\d+)?)"}


class Run(NamedTuple):
    """A configuration of a program that is recorded."""

    program: str
    configuration: str
    job: Job

    @property
    def there(self) -> bool:
        """Whether it is recorded, and the program ended well."""
        folder = self.job.folder
        ended = recorded(folder) and (folder / "code").read_text().strip() == "0"
        return ended and any(folder.glob("rank-*"))


def of_one_program(traces: Path) -> Iterator[Run]:
    """All configurations of the three kinds; one is resumed from the checkpoint of another, in its folder."""
    for kind in KINDS:
        for name, words in CONFIGURATIONS.items():
            folder = traces / "variations" / f"{kind}-{name.replace(' ', '-')}"
            if name == "resumed":
                words = ("--resume", str(folder.parent / f"{kind}-with-a-checkpoint" / "case" / "saved.pt"), *words)
            yield Run(kind, name, Job(HERE / "one_program.py", ("--kind", kind, *words), folder))


def of_healthy(traces: Path, count: int, names: Sequence[str]) -> Iterator[Run]:
    """The configurations that healthy programs offer; programs of one process, drawn at random."""
    files = [file for file in sorted((HERE / "healthy").glob("*.py")) if launch(file) == ["python"]]
    chosen = [file for file in files if file.stem in names] or random.Random(0).sample(files, count)
    for file in chosen:
        text = file.read_text(encoding="utf-8")
        steps = re.search(r'"--steps", type=int, default=(\d+)', text)
        size = re.search(r'"--size", type=int, default=(\d+)', text)
        more = {name: CONFIGURATIONS[name] for name in (*LEARNT, "another seed")}
        if steps:
            more["longer"] = ("--steps", str(2 * int(steps[1])))
            more["shorter"] = ("--steps", str(max(int(steps[1]) // 2, 6)))
        if size:
            more["wider"] = ("--size", str(2 * int(size[1])))
        for name, words in more.items():
            yield Run(
                file.stem, name, Job(file, words, traces / "variations" / f"{file.stem}-{name.replace(' ', '-')}")
            )
        for name, pattern in _LITERALS.items():
            if re.search(pattern, text):
                changed = traces / "variations" / "sources" / name.replace(" ", "-") / file.name
                changed.parent.mkdir(parents=True, exist_ok=True)
                changed.write_text(re.sub(pattern, _halved, text), encoding="utf-8")
                folder = traces / "variations" / f"{file.stem}-{name.replace(' ', '-')}"
                yield Run(file.stem, name, Job(changed, (), folder))


def _halved(found: re.Match[str]) -> str:
    value = found[2]
    return f"{found[1]}{max(int(value) // 2, 2) if value.isdigit() else float(value) / 2}"


def alarms(run: Run, invariants: Sequence[Invariant]) -> list[str]:
    """What a run is alarmed for."""
    return [f"{one.invariant}: {one.message} ({one.seen})" for one in violations(run.job.folder, invariants)]


class Tally:
    """Runs and false alarms of each row of the table."""

    def __init__(self) -> None:
        self.rows: dict[str, list[int]] = {}
        self.told: list[str] = []

    def add(self, row: str, column: int, run: Run, found: list[str]) -> None:
        """Count a run that was held against what was learnt."""
        cells = self.rows.setdefault(row, [0, 0, 0, 0])
        cells[2 * column] += 1
        cells[2 * column + 1] += bool(found)
        self.told += [
            f"{'one run' if not column else 'three'}: {run.program}, {run.configuration}: {one}" for one in found
        ]


def measure(runs: Sequence[Run]) -> tuple[Tally, dict[str, int]]:
    """Hold what was learnt of one run and of three against the others; how many sentences one run teaches."""
    tally, sentences = Tally(), {}
    learnt: dict[str, list[Invariant]] = {}
    there = [run for run in runs if run.there]
    for program in dict.fromkeys(run.program for run in there):
        own = {run.configuration: run for run in there if run.program == program}
        folders = [own[name].job.folder for name in LEARNT if name in own]
        if not folders:
            continue
        learnt[program] = list(infer(folders[:1]).invariants)
        three = list(infer(folders).invariants) if len(folders) == len(LEARNT) else None
        sentences[program] = sum(bool(one.subject) for one in learnt[program])
        for name, run in own.items():
            if name != LEARNT[0]:
                tally.add("another seed" if name in LEARNT else name, 0, run, alarms(run, learnt[program]))
            if three is not None and name not in LEARNT:
                tally.add(name, 1, run, alarms(run, three))
    for program, invariants in learnt.items():
        for run in there:
            if run.program != program and run.configuration == LEARNT[0]:
                tally.add("another program", 0, run, alarms(run, invariants))
    return tally, sentences


def page(tally: Tally, sentences: dict[str, int]) -> str:
    """The table."""
    numbers = sorted(sentences.values())
    lines = [
        "# False alarms of what is learnt",
        "",
        "Written by `python benchmarks/monitor/variations.py TRACES --write`.",
        f"What is inferred from one good run, and from three of other seeds, held against good runs of other configurations"
        f" of {len(sentences)} programs: {', '.join(f'`{name}`' for name in sentences)}.",
        f"One run teaches {numbers[0]} to {numbers[-1]} sentences beside the general ones (median {numbers[len(numbers) // 2]}).",
        "",
        "| Configuration | Runs, learnt of one | Alarmed | Runs, learnt of three | Alarmed |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| {name} | {' | '.join(map(str, cells))} |" for name, cells in tally.rows.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("names", nargs="*", help="healthy programs; drawn at random where none is named")
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    traces = given.traces.resolve()
    runs = [*of_one_program(traces), *of_healthy(traces, given.programs, given.names)]
    if not given.no_record:
        record([run.job for run in runs])
    tally, sentences = measure(runs)
    text = page(tally, sentences)
    print(text)
    print("\n".join(dict.fromkeys(tally.told)) if given.verbose else "")
    if given.write:
        (HERE / "variations.md").write_text(text, encoding="utf-8")
    return int(bool(tally.told))


if __name__ == "__main__":
    sys.exit(main())
