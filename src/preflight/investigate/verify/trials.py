"""Trials: how each run before and after the change ended, how far it came, and what it measured."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.errors import InputError
from preflight.investigate.paths import there
from preflight.investigate.verify.logs import trial_of_logs
from preflight.investigate.verify.trial import Trial
from preflight.vocabulary.verification import Outcome

NO_METRICS = {
    "side", "variant", "outcome", "result", "status", "failed", "ok", "passed", "success", "exit_code", "returncode", "steps",
    "hours", "order", "started", "signature", "category", "failed_at", "name", "run", "trial", "id", "seed", "metrics", "tokens",
    "curve", "epoch", "time", "step", "lr",
}  # fmt: skip


def read_trials(paths: Sequence[str], side: str) -> list[Trial]:
    """Read the trials of one side: tables of trials (JSON, JSON lines, CSV), and logs or folders of a run each.

    Raises:
        InputError: A path is not there, or a table is none.
    """
    found: list[Trial] = []
    for path in paths:
        there(path)
        rows = _table(path) if os.path.isfile(path) else None
        if rows is None:
            found.append(trial_of_logs(path))
        else:
            found += [
                trial_of(row, f"{path} {number}")
                for number, row in enumerate(rows, 1)
                if str(row.get("side", row.get("variant", side))).lower() in (side, "")
            ]
    return found


def read_table(path: str) -> tuple[list[Trial], list[Trial]]:
    """Read one table with the trials of both sides.

    Raises:
        InputError: It is not there, or is no table of trials.
    """
    there(path)
    if not os.path.isfile(path) or _table(path) is None:
        raise InputError(
            f"{path}: is no table of trials (.csv, .json, .jsonl) with a column that says how each ended",
            "side,outcome,steps in its first line, for example; logs go to --before and --after",
        )
    return read_trials((path,), "before"), read_trials((path,), "after")


def _table(path: str) -> list[dict[str, Any]] | None:
    """The rows of a table of trials; None: the file is something else, a log or the metrics of one run."""
    lower = path.lower()
    if not lower.endswith((".json", ".jsonl", ".csv")):
        return None
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        text = file.read().replace("\0", "")
    if lower.endswith(".csv"):
        import csv
        import io

        try:
            rows: list[dict[str, Any]] = [dict(row) for row in csv.DictReader(io.StringIO(text))]
        except csv.Error as error:
            raise InputError(f"{path}: not a table: {error}") from None
    else:
        try:
            if lower.endswith(".jsonl"):
                content: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
            else:
                content = json.loads(text)
        except ValueError as error:
            raise InputError(f"{path}: not JSON: {error}") from None
        if isinstance(content, dict):
            content = content.get("trials")
        if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
            return None
        rows = content
    return rows if rows and all(_says_how_it_ended(row) for row in rows) else None


def _says_how_it_ended(row: Mapping[str, Any]) -> bool:
    return bool(
        {"outcome", "result", "status", "failed", "ok", "passed", "success", "exit_code", "returncode"} & row.keys()
    )


def trial_of(row: Mapping[str, Any], name: str) -> Trial:
    """A row of a table as a trial."""
    cells: dict[str, Any] = {**row, **(row["metrics"] if isinstance(row.get("metrics"), dict) else {})}
    series = {}
    for key, cell in cells.items():
        if key in NO_METRICS or cell is None or cell == "":
            continue
        values = [_number(one) for one in cell] if isinstance(cell, list) else [_number(cell)]
        kept = [one for one in values if one is not None and math.isfinite(one)]
        if kept:
            series[key] = kept
    what = tuple(str(row[key]) for key in ("signature", "category") if row.get(key))
    return Trial(
        name=str(row.get("name") or name),
        outcome=_outcome(row, name),
        what=what,
        steps=_number(row.get("failed_at", row.get("steps")))
        if row.get("steps") in (None, "")
        else _number(row.get("steps")),
        hours=_number(row.get("hours")),
        order=_number(row.get("order", row.get("started"))),
        series=series,
    )


def _outcome(row: Mapping[str, Any], name: str) -> Outcome:
    for key in ("outcome", "result", "status"):
        word = str(row.get(key) or "").strip().lower()
        if word in ("pass", "passed", "ok", "success", "succeeded", "completed", "good", "0"):
            return "pass"
        if word in ("fail", "failed", "failure", "error", "crash", "crashed", "bad", "1"):
            return "fail"
        if word in ("timeout", "timed out", "hang", "hung"):
            return "timeout"
        if word in ("infra", "cancelled", "preempted", "skipped"):
            return "infra"
        if word in ("other", "other_fail"):
            return "other"
        if word:
            raise InputError(f"{name}: {key} {word!r} is no outcome", "pass, fail, other, timeout or infra")
    for key, bad in (("failed", True), ("ok", False), ("passed", False), ("success", False)):
        if row.get(key) not in (None, ""):
            return "fail" if _truth(row[key]) is bad else "pass"
    code = _number(row.get("exit_code", row.get("returncode")))
    if code is None:
        raise InputError(f"{name}: does not say how it ended")
    return "pass" if code == 0 else "fail"


def _truth(cell: Any) -> bool:
    return cell if isinstance(cell, bool) else str(cell).strip().lower() in ("1", "true", "yes", "y", "1.0")


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or cell is None:
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None
