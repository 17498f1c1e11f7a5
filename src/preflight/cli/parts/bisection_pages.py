"""What a bisection found, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from preflight.cli.parts.writing import Writing
from preflight.vocabulary.quantity import format_share

OUTCOMES = {
    "fail": "fails", "pass": "works", "other-fail": "fails otherwise", "timeout": "did not end",
    "infra": "did not start properly",
}  # fmt: skip
"""What is said of each outcome of a test."""
MOST_LISTED = 10
"""So many values that could not be judged are listed."""


def rendered(answer: dict[str, Any], look: Writing) -> str:
    """Return the answer in the format that was asked for."""
    if look.format == "text":
        return page(answer, look.width)
    from preflight.cli.parts.documents import Document, Entry, Section, render

    found = tuple(Entry(line) for line in _found(answer))
    about = (Entry(_about(answer)), Entry(f"Logs and results: {answer['state']}"))
    title = f"Bisection of {answer['dimension']}"
    head = ("where it begins cannot be told" if answer["reason"] else "where the failure begins was found",)
    tests = tuple(Entry(f"{one['value']}: {OUTCOMES[one['outcome']]}") for one in answer.get("trail", ()))
    sections = (Section("Found", found), Section("The tests, as they were made", tests, "steps"), Section("How", about))
    return render(Document(title, head, (), sections), answer, look)


def page(answer: dict[str, Any], width: int) -> str:
    """Return the answer as a person reads it."""
    lines = [*_found(answer), ""]
    lines += textwrap.wrap(_about(answer), width)
    lines += textwrap.wrap(
        f"Logs and results: {answer['state']}", width, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"


def _about(answer: dict[str, Any]) -> str:
    """Return what was run and which failure was looked for."""
    about = f"Failure: {answer['signature']}." if answer["signature"] else "No test failed."
    return (
        f"{answer['tests']} tests, {answer['tests_run']} of them run now, {answer['gpu_hours']:.3g} GPU-hours. {about}"
    )


def _found(answer: dict[str, Any]) -> list[str]:
    reason = [f"cannot tell: {answer['reason']}"] if answer["reason"] else []
    if answer["dimension"] == "configs":
        lines = [*reason]
        if answer["differences"]:
            lines += ["It fails with, and not without any one of:" if answer["confirmed"] else "It fails with:"]
            lines += [f"  {one}" for one in answer["differences"]]
        if answer["untold"]:
            lines += ["Without these it could not be judged:", *(f"  {one}" for one in answer["untold"])]
        return lines
    if answer["dimension"] == "nodes":
        lines = [f"{node}: a run with it fails" for node in answer["nodes"]]
        if answer["together"]:
            lines.append(f"These fail together, none alone: {', '.join(answer['together'])}")
            return [*lines, *reason]
        if not answer["reason"] and answer["cleared"]:
            lines.append(f"Cleared: {len(answer['cleared'])} nodes whose runs passed.")
        return [*lines, *reason]
    if answer["fails"] is None and answer["works"] is None:
        return reason
    lines = [f"works  {answer['works']}"] if answer["works"] is not None else []
    lines += [f"fails  {answer['fails']}"] if answer["fails"] is not None else []
    if answer["chance"] is not None and answer["chance"] < 1.0:
        lines.append(
            f"It fails in about {format_share(answer['chance'])} of the runs; this answer is right with {format_share(answer['probability'])}."
        )
    if answer["untold"]:
        lines.append(f"Between them and not judged: {_listed(answer['untold'])}")
    return [*lines, *reason]


def _listed(values: Sequence[str]) -> str:
    """Return values in a line; of many the first."""
    more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
    return ", ".join(map(str, values[:MOST_LISTED])) + more
