"""A page of explanation: paragraphs and sections of entries, as text, Markdown or HTML."""

from __future__ import annotations

import textwrap
from typing import Any, Literal

import msgspec

from preflight.cli.parts.writing import Writing

FORMATS = ("text", "markdown", "json", "html")
Kind = Literal["items", "steps", "quoted"]


class Entry(msgspec.Struct, frozen=True):
    """One thing in a section.

    Attributes:
        text: A sentence.
        name: What it is called where one asks for it: shown behind the sentence, in brackets.
        lead: What stands before the sentence: a share, for example.
        command: A command that shows it.
    """

    text: str
    name: str = ""
    lead: str = ""
    command: str | None = None


class Section(msgspec.Struct, frozen=True):
    """A heading with its entries.

    Attributes:
        title: The heading.
        entries: What stands below it; a section without any is not shown.
        kind: ``items``, ``steps`` (numbered), or ``quoted`` lines of a log or program.
        note: A sentence below the heading.
    """

    title: str
    entries: tuple[Entry, ...]
    kind: Kind = "items"
    note: str = ""


class Document(msgspec.Struct, frozen=True):
    """A page: its name, what it is in one line each, paragraphs, sections."""

    name: str
    lines: tuple[str, ...]
    paragraphs: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()


def render(document: Document, values: dict[str, Any], look: Writing) -> str:
    """Return the page in the format that was asked for; ``values`` is what JSON shows."""
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode(values)
    if look.format == "markdown":
        return markdown(document)
    if look.format == "html":
        from preflight.report.parts.sheet import sheet

        return sheet(markdown(document))
    return _text(document, look.width)


def markdown(document: Document) -> str:
    """Return the page as Markdown, one sentence per line."""
    parts = [f"# `{document.name}`", ""]
    for line in document.lines:
        parts += [line if line.endswith((".", ":", "?")) else line + ".", ""]
    parts += [*document.paragraphs, ""] if document.paragraphs else []
    for section in document.sections:
        if not section.entries:
            continue
        parts += [f"## {section.title}", ""]
        parts += [_ended(section.note), ""] if section.note else []
        if section.kind == "quoted":
            parts += ["```text", *(entry.text for entry in section.entries), "```", ""]
            continue
        for number, entry in enumerate(section.entries, 1):
            mark = f"{number}." if section.kind == "steps" else "-"
            name = " · ".join(f"`{word}`" for word in entry.name.split("; ")) if entry.name else ""
            parts.append(
                " ".join(word for word in (mark, entry.lead and f"**{entry.lead}**", entry.text, name) if word)
            )
            if entry.command:
                parts.append(f"{' ' * (len(mark) + 1)}`{entry.command}`")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _ended(line: str) -> str:
    """A line as a sentence, but for one that begins with a command."""
    begun = line if line.startswith("preflight ") else line[:1].upper() + line[1:]
    return begun if line.endswith((".", ":", "?")) else begun + "."


def _text(document: Document, width: int) -> str:
    lines = [document.name]
    for line in document.lines:
        lines += textwrap.wrap(line, width)
    for paragraph in document.paragraphs:
        lines += textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")
    for section in document.sections:
        if section.entries:
            note = f" ({section.note})" if section.note else ""
            lines += ["", *textwrap.wrap(section.title.upper() + note, width)]
            for number, entry in enumerate(section.entries, 1):
                lines += _entry_text(entry, section.kind, number, width)
    return "\n".join(lines) + "\n"


def _entry_text(entry: Entry, kind: Kind, number: int, width: int) -> list[str]:
    if kind == "quoted":
        return [f"  {line}" for line in entry.text.splitlines()]
    mark = f"{number}." if kind == "steps" else "-"
    first = f"  {entry.lead:>4}  " if entry.lead else f"  {mark} "
    name = f" [{entry.name.replace('; ', ', ')}]" if entry.name else ""
    then = " " * len(first)
    found = textwrap.wrap(
        entry.text + name, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )
    if entry.command:
        found.append(f"{then}$ {entry.command}")
    return found
