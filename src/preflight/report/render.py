"""Show a report in a format: ``render(report, "text")``. Only the module of that format is imported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType

from preflight.errors import UsageError, nearest
from preflight.listing import modules_beside
from preflight.report.parts.options import VERBOSE, Options
from preflight.vocabulary.report import Report
from preflight.vocabulary.rule_info import RuleInfo

_NOT_FORMATS = ("__init__.py", "render.py")


def formats() -> tuple[str, ...]:
    """Return the names of all formats: the modules that lie beside this one."""
    return modules_beside(__file__, but=_NOT_FORMATS)


def render(
    report: Report,
    format: str = "text",
    *,
    width: int = 80,
    color: bool = False,
    symbols: bool = True,
    verbose: bool = False,
    rest: str = VERBOSE,
    sources: Mapping[str, str] | None = None,
    rules: Iterable[RuleInfo] = (),
    table: str | None = None,
) -> str:
    """Return the report as text in one format, ending in a line end.

    Args:
        report: What a command found.
        format: One of :func:`formats`.
        width: Columns of the terminal (text only); at least 60 are used.
        color: Whether ANSI colours may be used (text only).
        symbols: Whether block and line characters may be used instead of ASCII (text only).
        verbose: Whether to list what is otherwise only counted.
        rest: The option or the command that lists it, for a text that only counts it.
        sources: The text of each file by its path; findings then show their line.
        rules: What the rules say of themselves (SARIF and HTML).
        table: ``findings``, ``memory`` or ``plan`` (CSV only); what the report is about when None.

    Raises:
        UsageError: The format does not exist.
    """
    options = Options(
        width=max(width, 60),
        color=color,
        symbols=symbols,
        verbose=verbose,
        rest=rest,
        sources=dict(sources or {}),
        rules=tuple(rules),
        table=table,
    )
    rendered: str = _module(format).render(report, options)
    return rendered


def format_for(path: str) -> str | None:
    """Return the format that the ending of a file name asks for, or None when no format claims it."""
    name = os.path.basename(path).lower()
    claims = ((ending, format) for format in formats() for ending in _module(format).ENDINGS)
    matching = [claim for claim in claims if name.endswith(claim[0])]
    return max(matching, key=lambda claim: len(claim[0]))[1] if matching else None


def _module(format: str) -> ModuleType:
    known = formats()
    if format not in known:
        close = nearest(format, known)
        hint = f"did you mean {close}?" if close else f"one of {', '.join(known)}"
        raise UsageError(f"unknown format {format!r}", hint)
    return import_module(f"preflight.report.{format}")
