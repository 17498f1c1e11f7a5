"""Validation words: estimates against published measurements."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.quantity import Interval


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """One measured row and what was estimated for it.

    Attributes:
        id: The row. source: Where it was read. model: What was trained. quality: ``A``, ``B`` or ``C``.
        quantity: What was compared: ``allocated``, ``reserved``, ``device`` (bytes), ``step`` (seconds).
        measured: The published value. estimate: Ours, with the interval that holds it in 90 of 100 cases.
        parts: The estimate by cause; adds up to its mid value where the quantity has parts.
    """

    id: str
    source: str
    model: str
    quality: str
    quantity: str
    measured: float
    estimate: Interval
    parts: dict[str, float] = {}

    @property
    def error(self) -> float:
        """The signed relative error: estimate over measured, less one."""
        return self.estimate.mid / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measured value lies within the interval."""
        return self.estimate.low <= self.measured <= self.estimate.high


class SourceErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors over the rows of one source, all of one quantity.

    Attributes:
        source: The source, or ``macro-average`` over sources, each of which weighs the same.
        rows: How many rows. median: Median signed relative error. mae: Mean absolute relative error.
        median_absolute: Median absolute relative error. bias: Mean signed relative error.
        coverage: Share of the measured values within the 90 % interval.
    """

    source: str
    quantity: str
    rows: int
    median: float
    mae: float
    median_absolute: float
    bias: float
    coverage: float


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a source that could not be compared, and why."""

    source: str
    reason: str
    rows: int


class FitsCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How runs that fitted, or that ran out of memory, were judged beforehand.

    Attributes:
        observed: ``fitted`` or ``ran out``. yes, unknown, no: Verdicts of rows.
    """

    observed: str
    yes: int = 0
    unknown: int = 0
    no: int = 0


class MemoryValidation(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated memory against every published row that can be expressed."""

    total_rows: int
    errors: tuple[SourceErrors, ...]
    macro: SourceErrors | None
    residuals: tuple[Residual, ...]
    refused: tuple[Refused, ...]
    fits: tuple[FitsCounts, ...]
    fits_refused: tuple[Refused, ...]

    @property
    def fits_right(self) -> float | None:
        """The share of right verdicts among those that were given; None when none was."""
        right = wrong = 0
        for counts in self.fits:
            good, bad = (counts.yes, counts.no) if counts.observed == "fitted" else (counts.no, counts.yes)
            right, wrong = right + good, wrong + bad
        return right / (right + wrong) if right + wrong else None


class SplitErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of predicted steps over the rows of one source, under one way of keeping rows out of the fit.

    Attributes:
        split: ``catalog alone``, ``five folds``, ``model left out``, ``six rows of the cluster``.
    """

    split: str
    errors: SourceErrors


class SweepRegret(msgspec.Struct, frozen=True, kw_only=True):
    """How much slower than the truly fastest layout of a published sweep the chosen one is.

    Attributes:
        sweeps: Sweeps of at least three layouts of the same model, batch and number of GPUs.
        of: ``layouts``; or ``clusters``: at least three of them for one model and length, and seconds are those of a GPU for
            a sample.
        median: Median over sweeps of measured time of the chosen over the fastest, less one. mean, worst: Likewise.
    """

    source: str
    split: str
    sweeps: int
    median: float
    mean: float
    worst: float
    of: str = "layouts"


class TimeValidation(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted steps against every published row that can be expressed."""

    total_rows: int
    expressed_rows: int
    errors: tuple[SplitErrors, ...]
    regrets: tuple[SweepRegret, ...]
    refused: tuple[Refused, ...]
