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
        return _html(document)
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


def _html(document: Document) -> str:
    from html import escape

    first, *rest = document.lines
    body = [f"<p><strong>{escape(first)}</strong></p>", *(f"<p>{escape(line)}</p>" for line in rest)]
    body += [f"<p>{_inline(line)}</p>" for line in document.paragraphs]
    for section in document.sections:
        if not section.entries:
            continue
        body.append(f"<h2>{escape(section.title)}</h2>")
        body += [f"<p><small>{escape(_ended(section.note))}</small></p>"] if section.note else []
        if section.kind == "quoted":
            body.append(f"<pre>{escape(chr(10).join(entry.text for entry in section.entries))}</pre>")
            continue
        kind = "ol" if section.kind == "steps" else "ul"
        body += [f"<{kind}>", *(f"<li>{_entry_html(entry)}</li>" for entry in section.entries), f"</{kind}>"]
    name = escape(document.name)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}"
        "pre{white-space:pre-wrap;padding:.75rem;border:1px solid #8886;border-radius:4px}li{margin:.4rem 0}"
        "small{opacity:.75}h1,h2{line-height:1.25}</style></head><body>\n"
        f"<h1>{name}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _entry_html(entry: Entry) -> str:
    from html import escape

    lead = f"<strong>{escape(entry.lead)}</strong> " if entry.lead else ""
    name = f" <small>{escape(entry.name.replace('; ', ', '))}</small>" if entry.name else ""
    command = f"<br><code>{escape(entry.command)}</code>" if entry.command else ""
    return f"{lead}{_inline(entry.text)}{name}{command}"


def _inline(text: str) -> str:
    """Text with ``code`` in backticks; nothing else of Markdown is used within a sentence."""
    from html import escape

    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
