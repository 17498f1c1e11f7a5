"""The page of a relation, from its file: what it says, what it needs, what breaks it, and a small trace of each."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

from preflight.cli.parts.writing import Writing
from preflight.monitor.relation import Relation, relation, relations
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_bytes


def is_relation(identifier: str) -> bool:
    """Whether a relation has this name."""
    return word(identifier) in relations()


def word(identifier: str) -> str:
    """The name as relations write theirs."""
    return identifier.strip().lower().replace("_", "-")


def relation_page(identifier: str) -> dict[str, Any]:
    """Everything that is known of a relation, as plain values.

    Raises:
        UsageError: There is none of this name.
    """
    kind = relation(word(identifier))
    body = (inspect.getdoc(kind) or "").partition("\n")[2].strip()
    return {
        "schema": "preflight.relation/1", "name": kind.name, "title": kind.title(), "severity": kind.severity,
        "fields": list(kind.fields), "across": kind.across, "learns": kind.learns, "needs": sorted(kind.needs),
        "page": body, "cause": kind.cause, "advice": kind.advice,
        "holding": _traces(kind.holding()), "broken": _traces(kind.broken()), "broken_says": _says(kind),
    }  # fmt: skip


def _traces(cases: Iterable[list[Window]]) -> list[list[str]]:
    """Return small traces, each as lines: what happens in every iteration of every rank, in order."""
    return [[_line(window) for window in windows] for windows in cases]


def _line(window: Window) -> str:
    told = [(call.q, call.line) for call in window.calls]
    for state in window.states:
        shown = [
            f"{window.run.name(ident)} {norm:g}" if norm is not None else f"{window.run.name(ident)} none"
            for ident, norm in zip(state.ids, state.norm, strict=True)
        ]
        told.append((state.q, f"[{state.what} {state.moment.replace('_', ' ')}: {', '.join(shown)}]"))
    told += [(number.q, f"[{number.name} {number.value}]") for number in window.numbers]
    told += [(tensor.q, f"[{tensor.object} {tensor.position} {tensor.dtype}]") for tensor in window.tensors]
    told += [(batch.q, f"[batch of {batch.loader}]") for batch in window.batches]
    told += [(held.q, f"[memory of {held.device}: {format_bytes(held.peak or 0)} at most]") for held in window.memory]
    rank = f"rank {window.rank}, " if window.run.world > 1 else ""
    return f"{rank}iteration {window.iteration}: {', '.join(line for _, line in sorted(told)) or 'nothing'}"


def _says(kind: type[Relation]) -> list[str]:
    """Return what the general statement says of the broken traces."""
    from preflight.monitor.judging.engine import Engine
    from preflight.monitor.library_of import general

    said: list[str] = []
    for windows in kind.broken() if not kind.learns and not kind.predicted else ():
        engine = Engine([general(kind.name)])
        for window in windows:
            engine.see(window)
        engine.finish()
        said += [one.message for one in engine.violations()]
    return list(dict.fromkeys(said))


def render_relation(page: dict[str, Any], look: Writing) -> str:
    """The page in the format that was asked for."""
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode(page)
    if look.format == "markdown":
        return relation_markdown(page)
    if look.format == "html":
        from preflight.report.parts.sheet import sheet

        return sheet(relation_markdown(page))
    return _text(page, look.width)


def about(page: dict[str, Any]) -> str:
    """Return in one line what kind of a relation it is."""
    parts = [page["severity"], "compares ranks" if page["across"] else "judges each rank"]
    parts.append("learnt from runs" if page["learns"] else "holds in general")
    if page["fields"]:
        parts.append(f"said of {', '.join(field.replace('_', ' ') for field in page['fields'])}")
    parts.append(f"needs {', '.join(page['needs'])}")
    return "; ".join(parts)


def relation_markdown(page: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [f"# `{page['name']}`", "", f"{page['title']}.", "", f"{about(page)}.", "", page["page"], ""]
    parts += ["## When it does not hold", "", f"Usually {page['cause']}.", "", f"Next: {page['advice']}.", ""]
    if page["broken_says"]:
        parts += ["It then says:", "", *(f"- {said}" for said in page["broken_says"]), ""]
    for key, title in (("holding", "It holds in, for example"), ("broken", "It does not hold in, for example")):
        if page[key]:
            parts += [f"## {title}", "", "```text", *page[key][0], "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _text(page: dict[str, Any], width: int) -> str:
    lines = [page["name"], *textwrap.wrap(page["title"], width), *textwrap.wrap(about(page), width), ""]
    for paragraph in page["page"].split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), width, initial_indent="  ", subsequent_indent="  "), ""]
    for name, text in (("usually", page["cause"]), ("next", page["advice"])):
        lines += textwrap.wrap(f"{name}: {text}", width, initial_indent="  ", subsequent_indent="    ")
    for key, title in (("broken", "DOES NOT HOLD IN, FOR EXAMPLE"), ("holding", "HOLDS IN, FOR EXAMPLE")):
        if page[key]:
            lines += ["", title]
            for line in page[key][0]:
                lines += textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines) + "\n"
