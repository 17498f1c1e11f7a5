"""Remedies on the command line: listed, shown, applied to files and taken back."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from preflight.catalog.remedy_files import load_remedy
from preflight.cli.parts.writing import Writing, put, remark
from preflight.errors import InputError, PreflightError, UsageError
from preflight.investigate.applying.proposal import Proposal, propose
from preflight.vocabulary.remedy import Remedy

CHANGED, NOT_WANTED, UNDECIDABLE = 0, 1, 3


def listed(words: Sequence[str], catalog: tuple[str, ...], look: Writing) -> int:
    """List the remedies that all words fit."""
    from preflight.cli.parts.tables import FORMATS, render_table, rows

    if look.format not in FORMATS:
        raise UsageError(f"a list cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    put(render_table("remedies", rows("remedies", words, catalog), look), look)
    return 0


def show(name: str, catalog: tuple[str, ...], look: Writing) -> int:
    """Show one remedy."""
    put(remedy_page(load_remedy(name, catalog), look), look)
    return 0


def remedy_page(remedy: Remedy, look: Writing) -> str:
    """Return the page of a remedy in the format that was asked for."""
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        return encode({"schema": "preflight.remedy/1", **msgspec.to_builtins(remedy)})
    if look.format == "markdown":
        rows = "".join(f"| {title} | {text} |\n" for title, text in _parts(remedy))
        return f"# `{remedy.id}`\n\n{remedy.title}.\n\n| | |\n|---|---|\n{rows}"
    if look.format == "text":
        return _page(remedy, look.width)
    if look.format == "html":
        from preflight.cli.parts.documents import Document, Entry, Section, render

        parts = tuple(Entry(text, lead=title) for title, text in _parts(remedy))
        document = Document(
            remedy.id, (remedy.title, f"{remedy.kind}, {remedy.category}"), sections=(Section("What is known", parts),)
        )
        return render(document, {}, look)
    raise UsageError(f"a remedy cannot be shown as {look.format}", "text, json, markdown or html")


def _page(remedy: Remedy, width: int) -> str:
    lines = [f"{remedy.id}  {remedy.kind}, {remedy.category}", *textwrap.wrap(remedy.title, width), ""]
    for title, text in _parts(remedy):
        lines += textwrap.wrap(text, width, initial_indent=f"{title:<13} ", subsequent_indent=" " * 14)
    return "\n".join(lines) + "\n"


def _parts(remedy: Remedy) -> list[tuple[str, str]]:
    from preflight.investigate.remedies import change_text

    command = f" {remedy.command}" if remedy.command else ""
    danger = remedy.danger + (f": {remedy.dangers}" if remedy.dangers else "")
    parts = [
        ("against", ", ".join(remedy.causes)),
        ("when", remedy.precondition),
        ("effect", remedy.effect),
        ("cost", remedy.cost),
        ("danger", danger),
        ("leaves", "the cause in place: it only lets the run go on" if remedy.hides else ""),
        ("mends", "nothing: it lets the cause be seen" if remedy.observes else ""),
        ("changes", "; ".join(change_text(change) for change in remedy.changes)),
        ("by hand", remedy.instruction),
        ("proved by", remedy.verification + (f" Run:{command}" if command else "")),
        ("taken back", remedy.reversal),
        ("told before", ", ".join(remedy.caught_by)),
        ("note", remedy.note),
        ("sources", "; ".join(remedy.sources)),
    ]
    return [(title, text) for title, text in parts if text]


def for_report(path: str, catalog: tuple[str, ...], look: Writing) -> int:
    """List the remedies for a report of investigate."""
    from preflight.investigate.remedies import remedies_for
    from preflight.vocabulary.incident import Remedied

    found: tuple[Remedied, ...] = remedies_for(read_incident(path), extra=catalog)
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({"schema": "preflight.remedies/1", "remedies": msgspec.to_builtins(found)}), look)
    elif look.format in ("text", "markdown"):
        lines: list[str] = []
        for number, one in enumerate(found, 1):
            lines += [f"{number}. {one.remedy}: {one.title}", f"   {one.why}"]
            lines += [f"   {one.change}"] if one.change else []
        put("\n".join(lines or ["no remedy is known for the causes of this report"]) + "\n", look)
    else:
        raise UsageError(f"remedies cannot be shown as {look.format}", "text, json or markdown")
    return 0 if found else UNDECIDABLE


def read_incident(path: str) -> Any:
    """Return the incident of a report as investigate writes it, or an incident alone.

    Raises:
        InputError: It cannot be read, or holds no incident.
    """
    import msgspec

    from preflight.vocabulary.incident import Incident

    try:
        with open(path, "rb") as file:
            content = msgspec.json.decode(file.read())
        told = content.get("incident", content) if isinstance(content, dict) else content
        return msgspec.convert(told, Incident, strict=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{path}: holds no incident: {error}", "preflight investigate LOGS -o report.json") from None


def to_files(name: str, catalog: tuple[str, ...], look: Writing, given: Mapping[str, Any]) -> int:
    """Show what a remedy changes in files, and change them where it is wanted; or take it back."""
    remedy = load_remedy(name, catalog)
    if given["revert"]:
        return _revert(remedy, look, given)
    proposals = [_proposal(remedy, path, given) for path in given["targets"]]
    for one in proposals:
        put(one.diff(), look)
        for why in one.missing:
            remark(f"{one.path}: not changed: {why}", look)
    if not any(one.made for one in proposals):
        remark(f"nothing in {', '.join(given['targets'])} is changed by {name}", look)
        return UNDECIDABLE
    if not given["apply_"]:
        remark("nothing was changed yet: --apply does it", look)
        return CHANGED
    files = [one for one in proposals if one.made]
    if not _wanted(f"Change {', '.join(one.path for one in files)}?", given["yes"]):
        remark("nothing was changed", look)
        return NOT_WANTED
    for one in files:
        _write(one)
        for said in one.made:
            remark(f"{one.path}: {said}", look)
        remark(f"taken back by: preflight investigate fix {name} --revert --to {one.path}", look)
    remark(f"proved by: {remedy.verification}", look)
    return CHANGED


def _proposal(remedy: Remedy, path: str, given: Mapping[str, Any]) -> Proposal:
    from preflight.check.files.text_file import read_text_file

    named = {}
    for word in given["variables"]:
        name, equals, variable = word.partition("=")
        if not equals or not variable:
            raise UsageError(f"--with {word}: is not NAME=VARIABLE", "for example: --with model=net")
        named[name] = variable
    return propose(remedy, path, read_text_file(path).text, named, given["value"])


def _write(proposal: Proposal) -> None:
    from preflight.check.files.text_file import read_text_file, write_whole
    from preflight.investigate.applying.reversal import record_of, record_path

    file = read_text_file(proposal.path)
    if file.text != proposal.before:
        raise InputError(f"{proposal.path}: was changed by somebody else just now", "try again")
    place = record_path(proposal.path, proposal.remedy)
    if os.path.exists(place):
        raise UsageError(
            f"{proposal.remedy} was applied to {proposal.path} before",
            f"preflight investigate fix {proposal.remedy} --revert --to {proposal.path} takes it back",
        )
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
    except OSError as error:
        raise PreflightError(f"{place}: the reversal cannot be written: {error.strerror or error}") from None
    write_whole(place, record_of(proposal).encode())  # the way back is there before the change is
    write_whole(proposal.path, file.encoded(proposal.after))


def _revert(remedy: Remedy, look: Writing, given: Mapping[str, Any]) -> int:
    from preflight.check.files.text_file import read_text_file, write_whole
    from preflight.investigate.applying.proposal import patch
    from preflight.investigate.applying.reversal import read_record, record_path, taken_back

    plans = []
    for path in given["targets"]:
        file = read_text_file(path)
        after = taken_back(read_record(path, remedy.id), file.text)
        put(patch(path, file.text, after), look)
        plans.append((path, file, after))
    if not _wanted(f"Take {remedy.id} back in {', '.join(path for path, _, _ in plans)}?", given["yes"]):
        remark("nothing was changed", look)
        return NOT_WANTED
    for path, file, after in plans:
        write_whole(path, file.encoded(after))
        os.unlink(record_path(path, remedy.id))
        remark(f"{path}: {remedy.id} is taken back", look)
    return CHANGED


def _wanted(question: str, yes: bool) -> bool:
    """Ask; without somebody to ask, nothing is wanted.

    Raises:
        UsageError: Nobody can be asked.
    """
    import sys

    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("nobody is there to say yes", "--yes applies it without asking")
    return click.confirm(question, default=False, err=True)


__all__ = ["for_report", "listed", "read_incident", "show", "to_files"]
