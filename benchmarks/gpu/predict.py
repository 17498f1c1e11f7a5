"""Holds what is read of the programs, and what their dry run says, against what a real GPU measured.

Usage: python predict.py [PATTERN] [--measured measured.toml] [--together N] [--read]
For each row of that file: the peak of allocated memory that ``preflight check`` reads from the script (``programs``
alone: the workloads are not written to be read), the peak and the step of its dry run on that GPU, and what was measured.
The table is written beside it (``measured.md``), and the rows are kept (``predicted.json``), so that a part can be run
again without the rest; --read leaves the dry runs as they were.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import written

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "dryrun" / "workloads"


def checked(script: Path, case: str, gpu: str, *options: str) -> dict[str, Any]:
    """Return the report of a check."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "preflight", "check", "--gpu", gpu, *options]
        command += ["--format", "json", "-o", str(report), str(script), *(["--", case] if case else [])]
        subprocess.run(command, capture_output=True, check=False, cwd=script.parent)
        told: dict[str, Any] = json.loads(report.read_bytes()) if report.exists() else {}
        return told


def predicted(name: str, gpu: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is said of one program before it runs; of its dry run what was said before, where that is given."""
    program, _, case = name.partition(":")
    script = (WORKLOADS if case else HERE / "programs") / f"{program}.py"
    row: dict[str, Any] = {"name": name}
    if not case:
        memory = checked(script, "", gpu).get("memory") or {}
        row["static"] = memory.get("peak_bytes")
        row["reason"] = memory.get("reason")
    if before is not None:
        return {**before, **row}
    report = checked(script, case, gpu, "--dry-run", "--no-probe", "--no-what-fits", "--time-limit", "900")
    memory = report.get("memory") or {}
    row["dry"] = memory.get("peak_bytes")
    row["oom"] = memory.get("oom")
    row["step"] = (report.get("step") or {}).get("seconds")
    return row


def beside(found: float | None, real: float) -> str:
    """Return a figure as its distance from the measured one."""
    return "-" if found is None else f"{found / real - 1:+.1%}"


def table(rows: dict[str, Any], real: dict[str, Any]) -> str:
    """Return the comparison as Markdown."""
    lines = [
        f"Measured on {real['date']} on one {real['gpu']} with PyTorch {real['torch']}.",
        "",
        "| program | allocated, measured | read from the script | within its interval | dry run | step, measured | dry run |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    off: dict[str, list[float]] = {"static": [], "dry": [], "step": []}
    for one in sorted(real["workload"], key=lambda one: (":" in one["name"], one["name"])):
        row = rows.get(one["name"])
        if row is None or "allocated" not in one:
            continue
        static, dry, step = row.get("static"), row.get("dry"), row.get("step")
        seconds = one.get("seconds_per_step", 0.0) * one.get("optimizers", 1)
        cells = [one["name"], f"{one['allocated'] / 2**20:,.0f} MiB"]
        if "oom_step" in one:
            oom = row.get("oom") or {}
            said = f"step {oom['step']}" if oom else "fits"
            cells += ["", "", f"out of memory: {said}; really {one['oom_step']}", "", ""]
        else:
            within = "" if static is None else "yes" if static["low"] <= one["allocated"] <= static["high"] else "no"
            cells += [beside(static["mid"] if static else None, one["allocated"]), within]
            cells += [beside(dry["mid"] if dry else None, one["allocated"])]
            cells += [
                f"{seconds * 1e3:.1f} ms" if seconds else "",
                beside(step["mid"], seconds) if step and seconds else "",
            ]
            for key, found in (("static", static), ("dry", dry)):
                off[key] += [abs(found["mid"] / one["allocated"] - 1)] if found else []
            off["step"] += [abs(step["mid"] / seconds - 1)] if step and seconds else []
        lines.append("| " + " | ".join(cells) + " |")
    names = {"static": "read from the script", "dry": "dry run", "step": "dry run's step"}
    told = [
        f"{names[key]}: {statistics.median(many):.1%} off in the median of {len(many)}, {max(many):.1%} at most"
        for key, many in off.items()
        if many
    ]
    return "\n".join([*lines, "", "; ".join(told) + "."]) + "\n"


def main() -> int:
    """Predict the chosen rows and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--measured", type=Path, default=HERE / "measured.toml")
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    real, file = written(given.measured), given.measured
    kept = file.with_name(file.stem.replace("measured", "predicted") + ".json")
    rows: dict[str, Any] = json.loads(kept.read_bytes()) if kept.exists() else {}
    names = [one["name"] for one in real["workload"]]
    chosen = [given.pattern] if given.pattern in names else [name for name in names if given.pattern in name]
    with ThreadPoolExecutor(given.together) as pool:
        former = rows if given.read else {}
        for row in pool.map(lambda name: predicted(name, real["gpu"], former.get(name)), chosen):
            rows[row["name"]] = row
            print(json.dumps(row), file=sys.stderr, flush=True)
            kept.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(table(rows, real), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
