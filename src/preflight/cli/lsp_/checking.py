"""A check of the text that an editor holds, saved or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from preflight.check.examine import examine_script
from preflight.check.files.discover import mentions_training
from preflight.check.files.project_config import load_project
from preflight.check.notices.syntax_error import finding_for
from preflight.cli.parts.request import options_of, selection_of
from preflight.errors import PreflightError
from preflight.source.script import ScriptSyntaxError, parse
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report


class Checked(msgspec.Struct, frozen=True):
    """What a check of a text gave.

    Attributes:
        findings: What is shown; of a text that does not parse, where it does not.
        report: The report, or None where there is none.
        problem: Why it could not be checked, for the person.
    """

    findings: tuple[Finding, ...] = ()
    report: Report | None = None
    problem: str | None = None


def check(path: str, text: str, given: dict[str, Any]) -> Checked:
    """Check a text as the file that it is going to be.

    Args:
        path: The file; what it imports is looked up from there.
        text: Its content in the editor.
        given: Options of the server's command line, over ``[tool.preflight]`` of the project.
    """
    data = text.encode("utf-8", "surrogatepass")
    if not mentions_training(data):
        return Checked()
    try:
        project = load_project(path)
        options, selection = options_of(given, project, None), selection_of(given, project)
        if project.folder is not None and _left_out(path, project.config.exclude, project.folder):
            return Checked()
        report = examine_script(parse(data, path, Path(path)), options, selection)
    except ScriptSyntaxError as error:
        return Checked((finding_for(error, path, data),))
    except PreflightError as error:
        return Checked(problem=f"{error}{f' ({error.hint})' if error.hint else ''}")
    except Exception as error:  # an error of ours in one text; the editor and its other documents go on
        return Checked(
            problem=f"{path} is not checked: internal error {type(error).__name__}: {error}; please report it"
        )
    return Checked(report.findings, report)


def _left_out(path: str, patterns: tuple[str, ...], base: str) -> bool:
    from preflight.check.files.discover import excluded

    return bool(patterns) and excluded(os.path.abspath(path), patterns, os.path.abspath(base))
