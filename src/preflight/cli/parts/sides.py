"""What a path stands for where two things are compared: the report of the command that it belongs to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from preflight.errors import InputError
from preflight.vocabulary.report import Report

_SCRIPTS = (".py", ".ipynb")
_SETTINGS = (".yaml", ".yml")
_KINDS = (
    "what can be compared: scripts, settings of a plan (.yaml), config.json of a model, traces, logs and dumps, and "
    "reports that a command wrote with -o REPORT.json"
)


def report_of(path: str, given: dict[str, Any]) -> Report:
    """Return the report of a script, settings, a model's configuration, a trace, logs, or a report that was kept.

    Args:
        path: What was named.
        given: ``gpu``, ``gpu_memory``, ``gpus``, ``launch``, ``arguments`` and ``dry_run``, for scripts and settings.

    Raises:
        InputError: It is not there, or cannot be read.
        UsageError: An option does not fit.
    """
    if os.path.isdir(path):
        return _of_folder(path, given)
    if not os.path.exists(path):
        from preflight.investigate.paths import there

        there(path)  # it knows what is named alike
        raise InputError(f"{path}: no such file or folder")
    if path.endswith(_SCRIPTS):
        return _checked(path, given)
    if path.endswith(_SETTINGS):
        return _planned(path, given)
    if path.endswith(".json"):
        return _of_json(path, given)
    return _investigated(path)


def _of_json(path: str, given: dict[str, Any]) -> Report:
    """A report, or the config.json of a model."""
    import json

    from preflight.vocabulary.written import is_report

    data = Path(path).read_bytes()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return _investigated(path)
    if is_report(data):
        from preflight.report.json import from_json

        return from_json(data)
    if isinstance(content, dict) and ("model_type" in content or "architectures" in content):
        return _planned(path, given)
    report = _investigated(path)
    if not _known(report):
        raise InputError(f"{path}: JSON that is no report, no model's configuration and no dump that is known", _KINDS)
    return report


def _of_folder(path: str, given: dict[str, Any]) -> Report:
    if os.path.exists(os.path.join(path, "run.json")):
        from preflight.monitor.api import check_trace

        return check_trace(path)
    if any(name.endswith(_SCRIPTS) for _, _, names in os.walk(path) for name in names):
        return _checked(path, given)
    return _investigated(path)


def _checked(path: str, given: dict[str, Any]) -> Report:
    from preflight.check.examine import examine_named
    from preflight.check.files.discover import discover
    from preflight.check.files.project_config import load_project
    from preflight.check.many import check_many, combine
    from preflight.cli.parts.request import options_of, selection_of

    project = load_project(path)
    options, selection = options_of(given, project, given.get("arguments")), selection_of(given, project)
    if not os.path.isdir(path):
        return examine_named(path, options, selection)
    several = check_many(discover([path], project.config.exclude, project.folder), options, selection)
    return combine(several.reports, [path], {}, several.notes)


def _planned(path: str, given: dict[str, Any]) -> Report:
    from preflight.plan.api import make_plan

    more = {name: given[name] for name in ("gpu", "gpus") if given.get(name)}
    return make_plan(path, **more) if path.endswith(".json") else make_plan(config=path, **more)


def _investigated(path: str) -> Report:
    from preflight.investigate.diagnose import diagnose

    report = diagnose(path)
    if not report.inputs.get("lines") and not report.findings and not _known(report):
        why = report.notes[0].removeprefix(f"{path}: ") if report.notes else "nothing in it was read"
        raise InputError(f"{path}: {why}", _KINDS)
    return report


def _known(report: Report) -> bool:
    """Whether anything is known of what happened: of dumps, no lines are counted."""
    return report.incident is not None and (report.incident.state != "unknown" or bool(report.incident.timeline))
