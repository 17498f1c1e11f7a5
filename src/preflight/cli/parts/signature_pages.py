"""The page of a failure signature, from its file; and that of an error number of the driver."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import msgspec

from preflight.cli.parts.writing import Writing

ROLES = {
    "root": "names a cause, on the rank that printed it",
    "cascade": "points to somebody else, and is never a cause itself",
    "confirmation": "the kernel, a driver or a scheduler confirms it from outside",
    "teardown": "part of an end that was decided elsewhere",
    "progress": "the training goes on",
    "recovered": "went wrong and was mended",
    "benign": "means no harm",
}
NUMBER = re.compile(r"(s?xid)[ :._-]?(\d+)", re.IGNORECASE)


def is_signature(identifier: str, catalog: tuple[str, ...] = ()) -> bool:
    """Whether a signature has this id; ``network/watchdog-timeout`` is taken too."""
    from preflight.catalog.signature_files import signature_names

    return word(identifier) in signature_names(catalog)


def word(identifier: str) -> str:
    """The id as signatures write theirs."""
    return identifier.strip().lower().removesuffix(".toml").replace("/", ".").replace("_", "-")


def nearest_signature(identifier: str, catalog: tuple[str, ...] = ()) -> str | None:
    """The id closest to this one, or whose name behind the family is; None where there is none."""
    from preflight.catalog.signature_files import signature_names
    from preflight.errors import nearest

    names = signature_names(catalog)
    wanted = word(identifier)
    short = {name.partition(".")[2]: name for name in names}
    return short.get(wanted) or nearest(wanted, names) or short.get(nearest(wanted, short) or "")


def signature_page(identifier: str, catalog: tuple[str, ...] = ()) -> dict[str, Any]:
    """Everything that is known of a signature, as plain values.

    Raises:
        LookupError: There is none of this id.
    """
    from preflight.catalog.signature_files import load_signature

    signature = load_signature(word(identifier), catalog)
    if signature is None:
        raise LookupError(identifier)
    page = {name: getattr(signature, name) for name in signature.__struct_fields__}
    page = {name: list(value) if isinstance(value, tuple) else value for name, value in page.items()}
    page["causes"] = [
        {
            "id": cause.id, "title": cause.title, "prior": cause.prior,
            "category": cause.category or signature.category, "discriminated_by": list(cause.discriminated_by),
        }
        for cause in signature.causes
    ]  # fmt: skip
    page["causes"].sort(key=lambda cause: -cause["prior"])
    return {"schema": "preflight.signature/1", "name": signature.id, "family": signature.id.partition(".")[0], **page}


def driver_error_page(identifier: str) -> dict[str, Any] | None:
    """What an error number of the driver stands for (``xid-79``, ``sxid 20034``); None where it is not one that is known."""
    from preflight.catalog.xid_codes import driver_error

    found = NUMBER.fullmatch(identifier.strip())
    if found is None:
        return None
    kind = "sxid" if found[1].lower() == "sxid" else "xid"
    error = driver_error(int(found[2]), "sxid" if kind == "sxid" else "xid")
    return None if error is None else {"schema": "preflight.driver-error/1", "kind": kind, **msgspec.to_builtins(error)}


def render_driver_error(page: dict[str, Any], look: Writing) -> str:
    """The page of an error number in the format that was asked for."""
    shown = {"xid": "Xid", "sxid": "SXid"}[page["kind"]]
    head = f"{shown} {page['code']} {page['name']}"
    told = [page["meaning"] + ".", f"Category: {page['category']}."]
    told += ["The card does not go on without a reset." for _ in range(page["fatal"])]
    told += ["As a rule it follows another error: look for the earlier one." for _ in range(page["follows"])]
    return _simple(head, [*told, f"First: {page['advice']}"], page, look)


def _simple(head: str, told: list[str], page: dict[str, Any], look: Writing) -> str:
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode(page)
    if look.format == "markdown":
        return f"# {head}\n\n" + "\n".join(told) + "\n"
    if look.format == "html":
        from html import escape

        return _document(escape(head), "\n".join(f"<p>{escape(line)}</p>" for line in told))
    return "\n".join([head, *(part for line in told for part in textwrap.wrap(line, look.width))]) + "\n"


def render_signature(page: dict[str, Any], look: Writing) -> str:
    """The page in the format that was asked for."""
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode(page)
    if look.format == "markdown":
        return signature_markdown(page)
    if look.format == "html":
        return _html(page)
    return _text(page, look.width)


def about(page: dict[str, Any]) -> str:
    """Return in one line what kind of a signature it is."""
    category = "" if page["category"] == "none" else f"; looks like {page['category']}"
    return f"{page['role']}: {ROLES[page['role']]}{category}"


def _notes(page: dict[str, Any]) -> list[str]:
    """What the fields of the line are used for, in sentences."""
    notes: list[str] = []
    if page["shift"]:
        notes.append(f"The trouble began by its `{page['shift']}` (milliseconds) earlier than the line was printed.")
    if page["points_to"]:
        notes.append(f"It accuses the one in `{page['points_to']}`, not the one that printed it.")
    if page["subject"]:
        notes.append(f"It is about the one in `{page['subject']}`; somebody else prints it.")
    if page["marks"]:
        notes.append(f"It marks a moment of the run: {page['marks']}.")
    if page["supersedes"]:
        notes.append(
            f"Seen on the same rank it says more than {', '.join(f'`{name}`' for name in page['supersedes'])}."
        )
    return notes


def signature_markdown(page: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [f"# `{page['name']}`", "", f"{page['title']}.", "", f"{about(page)}.", ""]
    parts += [page["page"].strip(), ""] if page["page"].strip() else []
    parts += [*_notes(page), ""] if _notes(page) else []
    if page["causes"]:
        parts += [
            "## What may be behind it",
            "",
            "| cause | | how often | category | what would tell |",
            "|---|---|---|---|---|",
        ]
        parts += [
            f"| `{cause['id']}` | {cause['title']} | {cause['prior']:.0%} | {cause['category']} "
            f"| {', '.join(cause['discriminated_by'])} |"
            for cause in page["causes"]
        ]
        parts += ["", "How often: when the line is seen alone; a judgement, not a count.", ""]
    for title, key in (("What to do next", "next"),):
        if page[key]:
            parts += [f"## {title}", "", *(f"{number}. {step}" for number, step in enumerate(page[key], 1)), ""]
    for title, key in (("Remedies", "remedies"), ("What would have told it before", "caught_by")):
        if page[key]:
            parts += [f"## {title}", "", ", ".join(f"`{name}`" for name in page[key]), ""]
    for title, key in (("Taken, for example", "match"), ("Not taken", "no_match")):
        parts += [f"## {title}", "", "```text", *page[key], "```", ""]
    parts += ["## Where the text stands", "", *(f"- {source}" for source in page["sources"])]
    return "\n".join(parts).rstrip() + "\n"


def _text(page: dict[str, Any], width: int) -> str:
    def wrap(text: str, first: str = "  ", then: str = "  ") -> list[str]:
        return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then)

    lines = [page["name"], *textwrap.wrap(page["title"], width), *textwrap.wrap(about(page), width)]
    for paragraph in (*page["page"].strip().splitlines(), *_notes(page)):
        lines += wrap(paragraph)
    if page["causes"]:
        lines += ["", "WHAT MAY BE BEHIND IT (how often, when it is seen alone: a judgement, not a count)"]
        for cause in page["causes"]:
            lines += wrap(
                f"{cause['prior']:>4.0%}  {cause['title']} [{cause['id']}, {cause['category']}]", "  ", " " * 8
            )
            if cause["discriminated_by"]:
                lines += wrap(f"told by: {', '.join(cause['discriminated_by'])}", " " * 8, " " * 8)
    if page["next"]:
        lines += ["", "NEXT"]
        for number, step in enumerate(page["next"], 1):
            lines += wrap(step, f"  {number}. ", "     ")
    for title, key in (("REMEDIES", "remedies"), ("WOULD HAVE TOLD IT BEFORE", "caught_by")):
        if page[key]:
            lines += ["", title, *wrap(", ".join(page[key]))]
    for title, key in (("TAKEN, FOR EXAMPLE", "match"), ("NOT TAKEN", "no_match")):
        lines += ["", title, *(f"  {line}" for text in page[key] for line in text.splitlines())]
    lines += ["", "WHERE THE TEXT STANDS"]
    for source in page["sources"]:
        lines += wrap(source, "  ", "    ")
    return "\n".join(lines) + "\n"


def _html(page: dict[str, Any]) -> str:
    from html import escape

    def listed(items: list[str], kind: str = "ul") -> str:
        return f"<{kind}>{''.join(f'<li>{escape(item)}</li>' for item in items)}</{kind}>"

    body = [f"<p><strong>{escape(page['title'])}</strong></p>", f"<p>{escape(about(page))}</p>"]
    body += [f"<p>{escape(line)}</p>" for line in (*page["page"].strip().splitlines(), *_notes(page))]
    if page["causes"]:
        told = [
            f"{cause['prior']:.0%} {cause['title']} ({cause['id']}, {cause['category']})" for cause in page["causes"]
        ]
        body += ["<h2>What may be behind it</h2>", listed(told)]
    if page["next"]:
        body += ["<h2>What to do next</h2>", listed(page["next"], "ol")]
    for title, key in (("Remedies", "remedies"), ("What would have told it before", "caught_by")):
        body += [f"<h2>{title}</h2>{listed(page[key])}" for _ in page[key][:1]]
    for title, key in (("Taken, for example", "match"), ("Not taken", "no_match")):
        body += [f"<h2>{title}</h2><pre>{escape(chr(10).join(page[key]))}</pre>"]
    body += ["<h2>Where the text stands</h2>", listed(page["sources"])]
    return _document(escape(page["name"]), "\n".join(body))


def _document(name: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
        "pre{overflow-x:auto;padding:.75rem;border:1px solid #8886;border-radius:4px}</style></head><body>\n"
        f"<h1>{name}</h1>\n{body}\n</body></html>\n"
    )
