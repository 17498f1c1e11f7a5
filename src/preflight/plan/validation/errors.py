"""Errors of estimates by source, and over sources."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from preflight.vocabulary.validation import Residual, SourceErrors

MACRO = "macro-average"


def errors_by_source(residuals: Iterable[Residual]) -> tuple[SourceErrors, ...]:
    """Return the errors of every source and quantity, in order of their names."""
    groups: dict[tuple[str, str], list[Residual]] = {}
    for residual in residuals:
        groups.setdefault((residual.source, residual.quantity), []).append(residual)
    return tuple(_errors(source, quantity, rows) for (source, quantity), rows in sorted(groups.items()))


def _errors(source: str, quantity: str, rows: Sequence[Residual]) -> SourceErrors:
    signed = [row.error for row in rows]
    return SourceErrors(
        source=source,
        quantity=quantity,
        rows=len(rows),
        median=statistics.median(signed),
        mae=statistics.fmean(abs(error) for error in signed),
        median_absolute=statistics.median(abs(error) for error in signed),
        bias=statistics.fmean(signed),
        coverage=statistics.fmean(row.inside for row in rows),
    )


def macro_average(errors: Sequence[SourceErrors]) -> SourceErrors | None:
    """Return the mean over sources, each of which weighs the same, so that a long table does not outvote the others."""
    if not errors:
        return None

    def mean(name: str) -> float:
        return statistics.fmean(getattr(entry, name) for entry in errors)

    quantities = sorted({entry.quantity for entry in errors})
    return SourceErrors(
        source=MACRO,
        quantity=", ".join(quantities),
        rows=sum(entry.rows for entry in errors),
        median=mean("median"),
        mae=mean("mae"),
        median_absolute=mean("median_absolute"),
        bias=mean("bias"),
        coverage=mean("coverage"),
    )
