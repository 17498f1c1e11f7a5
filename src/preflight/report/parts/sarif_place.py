"""Places and fingerprints in SARIF's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from preflight.report.parts.sentences import place
from preflight.vocabulary.finding import Finding, Location

FINGERPRINT = "preflightFinding/v1"


def artifact(path: str) -> dict[str, Any]:
    """Return the location of a file: relative paths against the root of the sources, absolute ones as file URIs."""
    from urllib.parse import quote

    slashed = path.replace("\\", "/")
    while slashed.startswith("./"):
        slashed = slashed[2:]
    quoted = quote(slashed.encode("utf-8", "surrogateescape" if _from_system(slashed) else "replace"), safe="/~")
    if slashed.startswith("/"):
        return {"uri": f"file://{quoted}"}
    if slashed[1:3] == ":/":
        return {"uri": f"file:///{slashed[0]}:{quoted[4:]}"}
    return {"uri": quoted or ".", "uriBaseId": "%SRCROOT%"}


def _from_system(path: str) -> bool:
    """Tell whether all surrogates of a path stand for bytes that the file system gave (PEP 383)."""
    return all("\udc80" <= char <= "\udcff" for char in path if "\ud800" <= char <= "\udfff")


def location(at: Location, *, identifier: int | None = None, message: str | None = None) -> dict[str, Any]:
    """Return a place. Lines of a notebook cell are not lines of its file, so they are named, not marked."""
    result: dict[str, Any] = {}
    if identifier is not None:
        result["id"] = identifier
    if at.path is not None:
        result["physicalLocation"] = {"artifactLocation": artifact(at.path)}
        region = _region(at)
        if region and at.cell is None:
            result["physicalLocation"]["region"] = region
    if at.path is None or at.cell is not None:
        name = place(at)
        if name:
            result["logicalLocations"] = [{"fullyQualifiedName": name}]
    if message:
        result["message"] = {"text": message_text(message)}
    return result


def message_text(text: str) -> str:
    """Return a message in which nothing reads as a link ``[text](target)`` or a placeholder ``{0}``."""
    if "](" in text:
        text = text.replace("[", "\\[")
    if any(f"{{{digit}" in text for digit in "0123456789"):
        text = text.replace("{", "{{").replace("}", "}}")
    return text


def _region(at: Location) -> dict[str, int]:
    """Return the marked span; its end is exclusive, as in SARIF."""
    fields = {"startLine": at.line, "startColumn": at.column, "endLine": at.end_line, "endColumn": at.end_column}
    if at.line is None:
        return {}
    return {name: value for name, value in fields.items() if value is not None and value >= 1}


def fingerprints(findings: Sequence[Finding], sources: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what identifies each finding when lines move: rule, file, the text of its line, and which of equals it is.

    Without the source, the message stands for the line, its numbers left out.
    """
    import hashlib

    seen: dict[str, int] = {}
    result = []
    for finding in findings:
        at = finding.location
        key = "\0".join([finding.code, (at.path or "").replace("\\", "/"), str(at.rank), _anchor(finding, sources)])
        nth = seen.get(key, 0)
        seen[key] = nth + 1
        digest = hashlib.sha256(f"{key}\0{nth}".encode("utf-8", "replace")).hexdigest()
        result.append({FINGERPRINT: digest[:32]})
    return result


def _anchor(finding: Finding, sources: Mapping[str, str]) -> str:
    at = finding.location
    text = sources.get(at.path) if at.path is not None and at.cell is None else None
    if text is not None and at.line is not None:
        lines = text.split("\n")
        if 1 <= at.line <= len(lines) and lines[at.line - 1].strip():
            return "line " + " ".join(lines[at.line - 1].split())
    return "message " + "".join(char for char in finding.message if not char.isdigit())
