"""Evaluations whose loss is no number: the training goes on behind each of them, and mends none."""

from __future__ import annotations

from math import isfinite

from preflight.investigate.case.case import Case, by_file
from preflight.vocabulary.log import Place

_NOT_A_NUMBER = "numerical.loss-nan"
_FEWEST = 2
"""One evaluation may have met one batch without a label; so many that all end so have not."""


def never_finite(case: Case) -> frozenset[Place]:
    """Return where losses of evaluations stand that are no numbers, in files in which no evaluation has one that is.

    The steps of the training show nothing of it: they go on, and their own loss may be finite.
    """
    told = by_file((one for one in case.every_step if "val_loss" in one.values), lambda one: one.file)
    bad = {
        (one.file, one.line)
        for lines in told.values()
        if len(lines) >= _FEWEST and not any(isfinite(one.values["val_loss"]) for one in lines)
        for one in lines
    }
    return frozenset(event.place for event in case.events if event.id == _NOT_A_NUMBER and event.place in bad)
