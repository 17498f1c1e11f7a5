"""Quick fixes: the edits of findings, all safe ones at once, and the comment that hides a finding."""

from __future__ import annotations

from typing import Any

from preflight.cli.lsp_.checking import Checked
from preflight.cli.lsp_.diagnostics import diagnostic, same_file
from preflight.cli.lsp_.places import replaced, span
from preflight.report.parts.clean import one_line
from preflight.vocabulary.finding import Edit, Finding


def actions(document: Any, checked: Checked, wanted: Any, only: list[str] | None) -> list[Any]:
    """Return what can be done at a range.

    Args:
        document: The document.
        checked: Its last check.
        wanted: The range of the request.
        only: The kinds that the editor asks for; None for all.
    """
    from lsprotocol import types

    quick, everything = types.CodeActionKind.QuickFix.value, f"{types.CodeActionKind.SourceFixAll.value}.preflight"
    found: list[Any] = []
    if _asked(quick, only):
        for finding in checked.findings:
            if same_file(finding.location.path, document.path) and _touches(span(document, finding.location), wanted):
                found += _of(document, finding)
    if _asked(everything, only):
        safe = [one.fix for one in checked.findings if one.fix is not None and one.fix.safe]
        edits = _apart([edit for fix in safe for edit in fix.edits if same_file(edit.path, document.path)])
        if edits:
            found.append(types.CodeAction(
                title=f"Preflight: apply all safe fixes ({len(safe)})", kind=everything, edit=_workspace(document, edits)
            ))  # fmt: skip
    return found


def _asked(kind: str, only: list[str] | None) -> bool:
    """Whether a kind is among those asked for: ``source`` asks for ``source.fixAll.preflight`` too."""
    return only is None or any(kind == one or kind.startswith(f"{one}.") for one in only)


def _touches(one: Any, other: Any) -> bool:
    return bool(one.start <= other.end and other.start <= one.end)


def _of(document: Any, finding: Finding) -> list[Any]:
    from lsprotocol import types

    about = [diagnostic(document, finding)]
    found = []
    fix = finding.fix
    if fix is not None and fix.edits and all(same_file(edit.path, document.path) for edit in fix.edits):
        note = "" if fix.safe else " (may change what is computed)"
        found.append(types.CodeAction(
            title=f"{one_line(fix.title)}{note}", kind=types.CodeActionKind.QuickFix, diagnostics=about,
            is_preferred=fix.safe, edit=_workspace(document, list(fix.edits)),
        ))  # fmt: skip
    comment = _hidden(document, finding)
    if comment is not None:
        found.append(types.CodeAction(
            title=f"Hide {finding.code} {finding.rule} on this line", kind=types.CodeActionKind.QuickFix,
            diagnostics=about, edit=_workspace(document, [comment]),
        ))  # fmt: skip
    return found


def _hidden(document: Any, finding: Finding) -> Edit | None:
    """The suppression comment at the end of the line; None where the line cannot take one."""
    line = finding.location.line
    if line is None or line > len(document.lines) or finding.code.startswith("SYN"):
        return None
    text = document.lines[line - 1].rstrip("\r\n")
    if "#" in text or text.endswith("\\"):
        return None
    column = len(text) + 1
    return Edit(document.path, line, column, line, column, f"  # preflight: ignore[{finding.rule}]")


def _apart(edits: list[Edit]) -> list[Edit]:
    """Edits that do not overlap: of two that do, the first; of two that are equal, one."""
    kept: list[Edit] = []
    for edit in edits:
        start, end = (edit.line, edit.column), (edit.end_line, edit.end_column)
        if all(end <= (one.line, one.column) or (one.end_line, one.end_column) <= start for one in kept if one != edit):
            kept += [edit] if edit not in kept else []
    return kept


def _workspace(document: Any, edits: list[Edit]) -> Any:
    from lsprotocol import types

    texts = [types.TextEdit(range=replaced(document, edit), new_text=edit.text) for edit in edits]
    return types.WorkspaceEdit(changes={document.uri: texts})
