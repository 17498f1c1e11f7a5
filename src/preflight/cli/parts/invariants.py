"""Invariants on the command line: which file is meant, and how invariants are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from preflight.cli.parts.writing import Writing
from preflight.errors import UsageError, nearest
from preflight.vocabulary.invariant import Invariant, Origin

FORMATS = ("text", "json", "csv", "markdown", "html")
COLUMNS = ("id", "relation", "severity", "support", "confidence", "state", "text")
_SHOWN = ("text", "id", "severity", "support", "confidence", "state")
MOST_RUNS = 4
"""Names of runs that are listed as where an invariant comes from."""
_ORIGINS: dict[Origin, str] = {
    "library": "shipped", "learnt": "learnt", "person": "written by hand", "prediction": "seen in a dry run",
}  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


def judging(command: F) -> F:
    """Add what a run is held against, and how much is told of it."""
    command = click.option("-v", "--verbose", is_flag=True, help="Also everything that belongs to an alarm.")(command)
    told = "What must hold, from monitor infer (default: the shipped library)."
    return click.option("--invariants", multiple=True, metavar="FILE", help=told)(command)


def kept_in(command: F) -> F:
    """Add the file in which something is said of invariants."""
    told = "The invariants file (default: .preflight/invariants.jsonl, beside the shipped library)."
    return click.option("--invariants", "file", metavar="FILE", help=told)(command)


def chosen(
    invariants: Sequence[Invariant], relation: str | None, words: Sequence[str], state: str | None, sort: str
) -> list[Invariant]:
    """Return the invariants that fit all that was asked for, in the order that was asked for.

    Raises:
        UsageError: No relation is called so.
    """
    from preflight.vocabulary.invariant import sort_key

    found = list(invariants)
    if relation is not None:
        known = sorted({one.relation for one in invariants})
        if relation not in known:
            near = nearest(relation, known)
            raise UsageError(
                f"no invariant is of a relation {relation!r}",
                f"did you mean {near}?" if near else f"there are {', '.join(known) or 'none'}",
            )
        found = [one for one in found if one.relation == relation]
    for word in words:
        found = [one for one in found if word.casefold() in _searched(one)]
    if state is not None:
        found = [one for one in found if state in states(one)]
    found.sort(key=sort_key)
    if sort in ("support", "confidence"):
        found.sort(key=lambda one: -float(getattr(one, sort)))
    elif sort == "id":
        found.sort(key=lambda one: one.id)
    return found


def _searched(one: Invariant) -> str:
    import msgspec

    return f"{one.id} {one.text} {msgspec.json.encode(one.subject).decode()}".casefold()


def states(one: Invariant) -> list[str]:
    """What a person has said of an invariant: ``pinned``, ``suppressed``."""
    return [word for word, said in (("pinned", one.pinned), ("suppressed", one.suppressed is not None)) if said]


def sentence(one: Invariant) -> str:
    """Return what an invariant says, as a sentence without a full stop."""
    if one.text:
        return one.text.rstrip(".")
    from preflight.monitor.relation import relations

    kind = relations().get(one.relation)
    return kind.sentence(one.subject) if kind is not None else one.relation


def render_invariants(invariants: Sequence[Invariant], look: Writing, whole: bool = True) -> str:
    """Return the invariants in a format; as text, general statements by name alone where it is not the ``whole``.

    Raises:
        UsageError: They cannot be shown in it.
    """
    if look.format not in FORMATS:
        raise UsageError(f"invariants cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    if look.format == "json":
        from preflight.report.parts.plain import encode, plain

        return encode({"schema": "preflight.invariants/1", "invariants": plain(list(invariants))})
    rows = [row(one) for one in invariants]
    if look.format == "csv":
        import csv
        import io

        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([cells[column] for column in COLUMNS] for cells in rows)
        return out.getvalue()
    if look.format == "markdown":
        from preflight.report.markdown import escape

        head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        return "\n".join(head + [f"| {' | '.join(escape(str(c[k])) for k in COLUMNS)} |" for c in rows]) + "\n"
    if look.format == "html":
        from preflight.report.parts.clean import one_line
        from preflight.report.parts.sheet import sheet

        table = [
            f"| {' | '.join(one_line(str(cells[k])).replace('|', chr(92) + '|') for k in _SHOWN)} |" for cells in rows
        ]
        titles = f"# Invariants\n\n{len(rows)} in all\n\n| {' | '.join(_SHOWN)} |\n|{'---|' * len(_SHOWN)}\n"
        return sheet(titles + "\n".join(table) + "\n")
    return _text(invariants, look, whole)


def row(one: Invariant) -> dict[str, Any]:
    """Return an invariant as the cells of a table."""
    return {
        "id": one.id, "relation": one.relation, "severity": one.severity, "support": one.support,
        "confidence": one.confidence if one.support else "", "state": ", ".join(states(one)), "text": sentence(one),
    }  # fmt: skip


def _text(invariants: Sequence[Invariant], look: Writing, whole: bool) -> str:
    from preflight.monitor.scope import MODEL
    from preflight.report.parts.clean import one_line
    from preflight.report.parts.options import Options
    from preflight.report.parts.paint import Canvas

    canvas = Canvas(Options(width=look.width, color=look.color))
    trainings = list(dict.fromkeys(one.subject[MODEL] for one in invariants if MODEL in one.subject))
    general = [] if whole else [one for one in invariants if one.id == one.relation and not states(one)]
    relation = said = None
    for one in invariants:
        if one in general:
            continue
        if one.relation != relation:
            relation, said = one.relation, None
            canvas.heading(one_line(relation))
        training = one.subject.get(MODEL)
        text = sentence(one).removesuffix(f" (in the training of {training})")
        if text != said:  # what holds in several trainings is said once, with the invariant of each below
            canvas.write(one_line(text), indent=2, first="- ")
        said = text
        number = f"; training {trainings.index(training) + 1}" if training and len(trainings) > 1 else ""
        canvas.write(one_line(about(one) + number), indent=4, style="dim")
    if general:
        canvas.heading("in general")
        canvas.write(one_line(", ".join(one.id for one in general)), indent=2)
    if len(trainings) > 1:
        canvas.heading("trainings")
        for at, training in enumerate(trainings, 1):
            canvas.write(one_line(training), indent=2, first=f"{at}  ")
    canvas.blank()
    told = f"{len(invariants)} {'invariant' if len(invariants) == 1 else 'invariants'}"
    if general:
        told += f", {len(general)} of them about correct training in general (--all shows their sentences)"
    canvas.write(told)
    if trainings:
        those = (
            f"in the training of {trainings[0]}" if len(trainings) == 1 else "in the training whose number they have"
        )
        canvas.write(f"those with a hash in their name speak of one program alone: {one_line(those)}")
    return canvas.text()


def about(one: Invariant) -> str:
    """Return the id, how often it held, where it comes from, and what a person said of it."""
    parts = [one.id, one.severity]
    foretold = one.source.origin == "prediction"
    if one.support and not foretold:
        share = "" if one.confidence >= 1 else f" ({one.confidence * 100:.1f} %)"
        parts.append(f"held {one.support:,} {'time' if one.support == 1 else 'times'}{share}")
    runs = f" {'of' if foretold else 'from'} {_named(one.source.runs)}" if one.source.runs else ""
    parts.append(_ORIGINS[one.source.origin] + runs)
    if one.source.note and not foretold:
        parts.append(one.source.note)
    if one.pinned:
        parts.append("pinned")
    if one.suppressed is not None:
        parts.append(f"suppressed: {one.suppressed}")
    return "; ".join(parts)


def _named(runs: Sequence[str]) -> str:
    """Return the names of runs, of many the first ones; the file of invariants has all of them."""
    shown = runs if len(runs) <= MOST_RUNS else runs[: MOST_RUNS - 1]
    others = f" and {len(runs) - len(shown)} others" if len(shown) < len(runs) else ""
    return ", ".join(shown) + others


def change_in(file: str | None, idents: Sequence[str], how: Any) -> tuple[list[Invariant], str]:
    """Change invariants of a file, or say of shipped ones in the project's own file what is different.

    Returns:
        The invariants as they are now, and the file.
    """
    from preflight.monitor.invariants_file import change, find, read_invariants, write_invariants
    from preflight.monitor.library_of import OWN, in_force

    if file is not None:
        return change(file, idents, how), file
    known = in_force()
    changed = [how(find(known, ident)) for ident in idents]
    own = read_invariants(OWN) if os.path.exists(OWN) else []
    kept = {one.id: one for one in own} | {one.id: one for one in changed}
    Path(OWN).parent.mkdir(parents=True, exist_ok=True)
    write_invariants(OWN, kept.values())
    return changed, str(OWN)
