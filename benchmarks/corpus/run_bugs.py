"""Run the real bugs of bugs.toml on a virtual H100, before and after each fix: what a dry run finds beside reading.

python benchmarks/corpus/run_bugs.py TARGET [NAME...] [--keep FOLDER] [--seconds S] [--probe]

TARGET is the folder that materialise.py wrote. bugs_runs.toml gives the command lines of scripts that want one.
With --keep, what the runs saw is kept in FOLDER and not run again.
The table goes to bugs_runs.md.
"""

from __future__ import annotations

import argparse
import collections
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from preflight.check.asked import Options
from preflight.check.examine import examine_named
from preflight.check.registry import load_run_rules
from preflight.check.selection import Selection
from preflight.dryrun import launch
from preflight.dryrun.server import Server
from preflight.errors import PreflightError
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.report import Report

HERE = Path(__file__).resolve().parent
SIDES = ("before", "after")
_ABOUT = """# Real bugs on a virtual H100

Written by `run_bugs.py`, of the bugs that it was asked for: a bug of `bugs.toml` that is not in the table was not run.
"Read" says whether reading finds the bug before the fix and not after it; "run confirms" whether the dry run saw it, too.
A script that did not get to a step shows nothing, and the column says why."""
RUN = {loaded.rule.code for loaded in load_run_rules()}


class Kept:
    """Profiles on disk, so that rules can be asked again without running anything.

    Args:
        folder: Where they lie; None keeps nothing.
        run: Runs a job.
    """

    def __init__(self, folder: Path | None, run: Any) -> None:
        self.folder, self.run, self.name = folder, run, ""
        self._count = 0

    def of(self, name: str) -> None:
        """What is run from now on is one side of one bug."""
        self.name, self._count = name, 0

    def __call__(self, job: launch.Job) -> Profile:
        """Return what a job saw, from the disk where it is known."""
        self._count += 1
        if self.folder is None:
            return self.run(job)  # type: ignore[no-any-return]
        file = self.folder / f"{self.name}.{self._count}.json"
        if file.exists():
            told = msgspec.json.decode(file.read_bytes())
            if "refused" in told:
                raise PreflightError(told["refused"])
            return msgspec.convert(told["profile"], Profile)
        try:
            profile = self.run(job)
        except PreflightError as error:
            file.write_bytes(msgspec.json.encode({"refused": str(error)}))
            raise
        file.write_bytes(msgspec.json.encode({"profile": profile}))
        return profile  # type: ignore[no-any-return]


def read(path: Path, key: str) -> list[dict[str, Any]]:
    """Return the entries of a table; an absent file has none."""
    return tomllib.loads(path.read_text(encoding="utf-8")).get(key, []) if path.exists() else []  # type: ignore[no-any-return]


def checked(path: Path, options: Options) -> Report | str:
    """The report of a script, or why there is none."""
    try:
        return examine_named(str(path), options, Selection(persona="audit"))
    except PreflightError as error:
        return str(error)


def measured(finding: Finding) -> bool:
    """Whether the run said something to a finding."""
    return any(e.source == "measured" for e in finding.evidence)


def outcome_of(report: Report | str) -> str:
    """How a run went, in a few words."""
    if isinstance(report, str):
        return f"no answer: {report[:80]}"
    profile = report.profile
    if profile is None:
        return "not run"
    if profile.outcome == "failed":
        at = f" at {Path(profile.frames[-1].file).name}:{profile.frames[-1].line}" if profile.frames else ""
        return f"failed, {profile.steps} steps: {profile.error}{at}: {(profile.message or '').strip()[:70]}"
    return f"{profile.outcome}, {profile.steps} steps"


def row_of(entry: dict[str, Any], given: dict[str, Any], target: Path, kept: Kept, options: Options) -> dict[str, Any]:
    """Check one bug on both sides, by reading and by running."""
    folder, code = target / "bugs" / entry["name"], entry["code"]
    known = {code, *given.get("also", ())} - {"none"}
    row: dict[str, Any] = {"name": entry["name"], "code": code}
    for side in SIDES:
        path = folder / side / given.get("script", entry["script"])
        os.chdir(folder / side)
        kept.of(f"{entry['name']}.{side}")
        arguments = tuple(shlex.split(given["arguments"])) if "arguments" in given else None
        plain = checked(path, Options(arguments=arguments))
        ran = checked(path, msgspec.structs.replace(options, arguments=arguments, launch=given.get("launch")))
        for name, report in (("read", plain), ("run", ran)):
            found = [] if isinstance(report, str) else [f for f in report.findings if f.code in known]
            row[f"{side} {name}"] = len(found)
        row[f"{side} outcome"] = outcome_of(ran)
        row[f"{side} findings"] = (
            [] if isinstance(ran, str) else [f for f in ran.findings if f.code in RUN and measured(f)]
        )
    return row


def shown(row: dict[str, Any]) -> None:
    """Print what one bug gave."""
    print(f"{row['name']:<44}{row['code']:<8}read {row['before read']}/{row['after read']} run "
          f"{row['before run']}/{row['after run']}  {row['before outcome']} | {row['after outcome']}")  # fmt: skip
    for side in SIDES:
        for finding in row[f"{side} findings"]:
            print(f"    {side:<7}{finding.severity:<8}{finding.code} {Path(finding.location.path or '').name}:"
                  f"{finding.location.line} {finding.message[:150]}", flush=True)  # fmt: skip


def write(rows: list[dict[str, Any]]) -> None:
    """Write the table: what each bug gave, and what else the run said on either side."""
    head = "| bug | code | read | run confirms | run before | run after | other findings of the run, before / after |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows:
        confirmed = sum(f.code == row["code"] for f in row["before findings"])
        others = [
            ", ".join(sorted(f.code for f in row[f"{side} findings"] if f.code != row["code"])) or "none"
            for side in SIDES
        ]
        read = "found" if row["before read"] > row["after read"] else "missed"
        cells = [
            row["name"],
            row["code"],
            read,
            "yes" if confirmed else "no",
            row["before outcome"],
            row["after outcome"],
        ]
        lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in [*cells, " / ".join(others)]) + " |")
    (HERE / "bugs_runs.md").write_text("\n".join([_ABOUT, "", *lines, ""]), encoding="utf-8")


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--probe", action="store_true")
    asked = parser.parse_args()
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    options = Options(gpu="h100", dry_run=True, probe=asked.probe, time_limit=asked.seconds, what_fits=False)
    given = {entry["name"]: entry for entry in read(HERE / "bugs_runs.toml", "runs")}
    rows = []
    with Server() as server:
        kept = Kept(asked.keep.resolve() if asked.keep else None, server.run)
        launch.dry_run = kept  # type: ignore[assignment]
        for entry in read(HERE / "bugs.toml", "bugs"):
            if not asked.names or any(name in entry["name"] for name in asked.names):
                rows.append(row_of(entry, given.get(entry["name"], {}), asked.target.resolve(), kept, options))
                shown(rows[-1])
    write(rows)
    counts = collections.Counter(
        "found by reading" if r["before read"] > r["after read"] else
        "found by the run" if r["before run"] > r["after run"] else "missed" for r in rows
    )  # fmt: skip
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
