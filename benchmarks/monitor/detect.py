"""Measures what is caught: every program with a bug and its correct twin, held against invariants.

    python benchmarks/monitor/detect.py TRACES [NAME ...] [--infer] [--no-record] [--write] [-v]

Records what is missing into TRACES (see `warm.py`): `bugs/NAME`, `fixed/NAME` and, with ``--infer``, `fixed.1/NAME`
(the twin with another seed). A recording that is there is taken as it is; remove it after a change of the recorder.

Three sets of invariants are tried: the shipped library alone; with ``--infer``, what is inferred from one correct run
of the twin with another seed; and what is inferred from three healthy programs of other kinds (`OTHERS`).
A bug counts as caught when a relation is violated that is not violated in the twin.
``--write`` writes the tables to `detection.md`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from warm import HERE, Job, record, recorded

from preflight.monitor.follow import Follower
from preflight.monitor.learn.infer import infer
from preflight.monitor.library_of import shipped
from preflight.monitor.trace.folder import TraceFolder
from preflight.vocabulary.invariant import Invariant, Violation

OTHERS = ("cnn_classifier", "lm_onecycle_loader", "resnet_batchnorm")
"""The healthy programs from which the third set is inferred."""
WITHIN = 2
"""Steps after the first effect within which a bug is to be caught."""
FAULTS = HERE / "gpt_faults.py"
UNSEEN = "## Programs that nothing had been made for"
"""What the page says from here on was measured once and is kept as it is."""


class Bug(NamedTuple):
    """A program with a bug, as its header tells it."""

    name: str
    file: Path
    effect: int
    names: tuple[str, ...]
    family: str
    detectable: bool
    broken: tuple[str, ...]
    correct: tuple[str, ...]

    def job(self, traces: Path, room: str) -> Job:
        """What is to be recorded: the program with its bug, its twin, or the twin with another seed."""
        arguments = self.broken if room == "bugs" else self.correct
        if room == "fixed.1":
            arguments = (*arguments, "--seed", "1")
        return Job(self.file, arguments, traces / room / self.name)


class Verdict(NamedTuple):
    """What a set of invariants said of a bug and its twin.

    Attributes:
        step: The first optimizer step at which it was caught; None where it was not.
        groups: As how many groups it was told.
        named: Whether one of the names that a good report has is told.
        relations: What was violated.
        false: Relations violated in the twin, with the first message of each.
    """

    step: int | None
    groups: int
    named: bool
    relations: tuple[str, ...]
    false: dict[str, str]


def bugs() -> Iterator[Bug]:
    """The programs with bugs, and the faults of the benchmark model."""
    for file in sorted((HERE / "bugs").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        told = header(text)
        effect = int(told["first effect"].split()[1])
        names = tuple(name.strip() for name in told["names"].split(","))
        detectable = told["detectable"].startswith("yes")
        yield Bug(file.stem, file, effect, names, told["family"], detectable, (), ("--fixed",))
    pattern = r"# fault: (\w+); first effect: step (\d+); names: ([^;]+); family: (\w+)"
    for fault, effect_, names_, family in re.findall(pattern, FAULTS.read_text(encoding="utf-8")):
        names = tuple(name.strip() for name in names_.split(","))
        yield Bug(f"gpt_{fault}", FAULTS, int(effect_), names, family, True, ("--fault", fault), ())


def header(text: str) -> dict[str, str]:
    """The comment block that follows a docstring."""
    told: dict[str, str] = {}
    for line in text.splitlines()[ast.parse(text).body[0].end_lineno :]:
        found = re.fullmatch(r"# ([a-z][a-z ]*): (.*\S)", line)
        if not found:
            break
        told[found[1]] = found[2]
    return told


def violations(trace: Path, invariants: Sequence[Invariant]) -> list[Violation]:
    """What a recording violates."""
    follower = Follower(TraceFolder(trace), invariants)
    follower.check()
    return follower.violations()


def judge(bug: Bug, traces: Path, invariants: Sequence[Invariant]) -> Verdict:
    """Hold a bug and its twin against invariants."""
    false: dict[str, str] = {}
    for one in violations(traces / "fixed" / bug.name, invariants):
        false.setdefault(one.relation, f"step {one.first_step}: {one.message}: {one.seen}")
    found = [one for one in violations(traces / "bugs" / bug.name, invariants) if one.relation not in false]
    told = " ".join(f"{one.message} {one.expected} {one.seen} {' '.join(one.variables)}" for one in found)
    return Verdict(
        min((one.first_step for one in found), default=None),
        len({one.group for one in found}),
        any(name in told for name in bug.names),
        tuple(dict.fromkeys(one.relation for one in sorted(found, key=lambda one: (one.first_step, one.group)))),
        false,
    )


class Table:
    """The verdicts of one set of invariants."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: list[tuple[Bug, Verdict]] = []

    def totals(self) -> str:
        """What was caught, in a paragraph."""
        of = [(bug, verdict) for bug, verdict in self.rows if bug.detectable]
        caught = [(bug, verdict) for bug, verdict in of if verdict.step is not None]
        soon = [1 for bug, verdict in caught if (verdict.step or 0) <= bug.effect + WITHIN]
        one = sum(verdict.groups == 1 for _, verdict in caught)
        named = sum(verdict.named for _, verdict in caught)
        beyond = [(bug, verdict) for bug, verdict in self.rows if not bug.detectable]
        more = sum(verdict.step is not None for _, verdict in beyond)
        false = sum(bool(verdict.false) for _, verdict in self.rows)
        share = f" ({len(soon) / len(of):.0%})" if of else ""
        return (
            f"Of {len(of)} bugs that are detectable {len(caught)} are caught, {len(soon)}{share} of them within "
            f"{WITHIN} steps of the first effect; {one} as one group, {named} with one of the names that a good report "
            f"tells.\nOf {len(beyond)} that were judged not detectable {more} are caught.\n"
            f"{false} of {len(self.rows)} correct twins are alarmed."
        )

    def lines(self) -> Iterator[str]:
        """The table."""
        yield "| Program | Family | First effect | Caught at | Groups | Names told | Relations | False alarms in the twin |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for bug, verdict in self.rows:
            if verdict.step is None:
                caught = "missed" if bug.detectable else "not (not detectable)"
            else:
                caught = f"{verdict.step} ({verdict.step - bug.effect:+d})"
            named = ("yes" if verdict.named else "no") if verdict.step is not None else ""
            relations = ", ".join(verdict.relations[:4]) + (" ..." if len(verdict.relations) > 4 else "")
            false = ", ".join(verdict.false)
            groups = verdict.groups or ""
            yield f"| {bug.name} | {bug.family} | {bug.effect} | {caught} | {groups} | {named} | {relations} | {false} |"


def ready(bug: Bug, traces: Path, rooms: Sequence[str]) -> bool:
    """Whether a bug and its twin are recorded."""
    return all(recorded(traces / room / bug.name) and any((traces / room / bug.name).glob("rank-*")) for room in rooms)


def evaluate(chosen: Sequence[Bug], traces: Path, inferring: bool) -> list[Table]:
    """Try the sets of invariants."""
    tables = [Table("The shipped library alone")]
    library = shipped()
    tables[0].rows = [(bug, judge(bug, traces, library)) for bug in chosen if ready(bug, traces, ("bugs", "fixed"))]
    if not inferring:
        return tables
    own, other = Table("Inferred from one correct run with another seed"), Table(f"Inferred from {', '.join(OTHERS)}")
    others = [traces / "healthy" / name for name in OTHERS]
    of_others = infer(others).invariants if all(recorded(trace) for trace in others) else None
    for bug in chosen:
        if ready(bug, traces, ("bugs", "fixed", "fixed.1")):
            own.rows.append((bug, judge(bug, traces, infer([traces / "fixed.1" / bug.name]).invariants)))
        if of_others is not None and ready(bug, traces, ("bugs", "fixed")):
            other.rows.append((bug, judge(bug, traces, of_others)))
    return [*tables, own, other]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--no-record", action="store_true", help="leave out programs that are not recorded")
    parser.add_argument("--write", action="store_true", help="write detection.md")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell the false alarms")
    given = parser.parse_args()
    traces = given.traces.resolve()
    chosen = [bug for bug in bugs() if not given.names or bug.name in given.names]
    rooms = ["bugs", "fixed", *(["fixed.1"] if given.infer else [])]
    if not given.no_record:
        jobs = [bug.job(traces, room) for bug in chosen for room in rooms]
        record(jobs + [Job(HERE / "healthy" / f"{name}.py", (), traces / "healthy" / name) for name in OTHERS])
    tables = evaluate(chosen, traces, given.infer)
    for table in tables:
        print(f"## {table.title}\n\n{table.totals()}\n")
        print("\n".join(table.lines()), "\n")
        if given.verbose:
            for bug, verdict in table.rows:
                for relation, said in verdict.false.items():
                    print(f"FALSE ALARM  {bug.name}: {relation}: {said}")
    if given.write:
        write(tables)
    return 0


def write(tables: Sequence[Table]) -> None:
    """Write the page."""
    parts = [
        "# What is caught\n\n"
        "Written by `python benchmarks/monitor/detect.py TRACES --infer --write`: every program of `bugs/` and every fault"
        " of `gpt_faults.py`, with its correct twin.\n"
        "A step is an optimizer step, counted from 0 over all optimizers of the process.\n"
        "What is inferred holds the shipped statements, too, of which the runs gave nothing to judge.\n"
        "Relations were made with these programs in view, so that the tables show what is told and what is not, and no"
        " figure for unseen programs: those are in the sections about lots.\n"
    ]
    parts += [
        f"## {table.title}\n\n{table.totals()}\n\n" + "\n".join(table.lines()) + "\n" for table in tables if table.rows
    ]
    page = HERE / "detection.md"
    _, mark, kept = page.read_text(encoding="utf-8").partition(UNSEEN) if page.is_file() else ("", "", "")
    page.write_text("\n".join(parts) + (f"\n{mark}{kept}" if mark else ""), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
