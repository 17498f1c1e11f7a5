"""Findings as diagnostics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from preflight.cli.lsp_.places import span
from preflight.report.parts.clean import one_line
from preflight.report.parts.sentences import evidence_line, place
from preflight.vocabulary.finding import Finding, Location

SOURCE = "preflight"
_SEVERITIES = {"error": 1, "warning": 2, "info": 3}


def diagnostic(document: Any, finding: Finding) -> Any:
    """Return a finding as it is underlined; one of another file stands at the top, with the way to it.

    Args:
        document: The document that was checked.
        finding: What was found.
    """
    from lsprotocol import types

    here = same_file(finding.location.path, document.path)
    message = one_line(finding.message) if here else f"{place(finding.location)}: {one_line(finding.message)}"
    told = [message, *(f"seen: {evidence_line(one)}" for one in finding.evidence)]
    if finding.fix is not None:
        told.append(f"hint: {one_line(finding.fix.title)}")
    severity = finding.severity if finding.confidence != "possible" else "info"
    return types.Diagnostic(
        range=span(document, finding.location if here else Location(line=1)),
        message="\n".join(told),
        severity=types.DiagnosticSeverity(_SEVERITIES[severity]),
        code=finding.code,
        source=SOURCE,
        related_information=_related(document, finding, here),
    )


def _related(document: Any, finding: Finding, here: bool) -> Any:
    from lsprotocol import types

    places = [(one.location, one.message) for one in finding.related]
    if not here:
        places.insert(0, (finding.location, finding.message))
    found = []
    for location, message in places:
        if location.path is None or location.line is None:
            continue
        own = same_file(location.path, document.path)
        row = types.Position(line=location.line - 1, character=(location.column or 1) - 1)
        where = span(document, location) if own else types.Range(start=row, end=row)
        uri = document.uri if own else Path(os.path.abspath(location.path)).as_uri()
        found.append(
            types.DiagnosticRelatedInformation(location=types.Location(uri=uri, range=where), message=one_line(message))
        )
    return found or None


def same_file(one: str | None, other: str) -> bool:
    """Whether a finding's path is that of the document."""
    return one is not None and os.path.abspath(one) == os.path.abspath(other)
