"""Predicted steps against the shipped measurements, without a fit: the goals, and the page that tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.plan.calibration.conformal import CATALOG_HOST, CATALOG_NODE, CATALOG_NODES, regimes
from preflight.plan.validation.steps import measured_steps
from preflight.plan.validation.table import errors_table
from preflight.plan.validation.time import regimes_of, splits_of, validate_time
from preflight.vocabulary.validation import TimeValidation

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "accuracy-of-time.md"


@pytest.fixture(scope="module")
def alone() -> TimeValidation:
    return validate_time(calibrated=False)


def test_the_catalog_alone_is_within_a_fifth(alone: TimeValidation) -> None:
    macro = next(entry.errors for entry in alone.errors if entry.errors.source == "macro-average")
    assert macro.median_absolute < 0.20
    assert macro.coverage >= 0.88


def test_the_chosen_layout_is_nearly_the_fastest(alone: TimeValidation) -> None:
    for entry in alone.regrets:
        assert entry.median <= 0.03, entry


def test_llm_foundry_ranks_clusters(alone: TimeValidation) -> None:
    # It has one layout for each model and cluster: what can be ranked is the use of GPUs.
    found = [entry for entry in alone.regrets if entry.source == "llm-foundry"]
    assert [entry.of for entry in found] == ["clusters"]
    assert found[0].sweeps >= 30
    assert found[0].median <= 0.03


def test_rows_are_expressed_or_refused_with_a_reason(alone: TimeValidation) -> None:
    assert alone.expressed_rows + sum(entry.rows for entry in alone.refused) == alone.total_rows
    assert alone.expressed_rows > 1000
    assert all(entry.reason for entry in alone.refused)


def _figures(line: str) -> list[float]:
    return [float(cell.strip(" %")) for cell in line.split("|")[4:-1]]


def test_the_page_is_current(alone: TimeValidation) -> None:
    """Every row of the page is that of today, within two points of a per cent."""
    told = {
        line.split("|")[2]: line
        for line in PAGE.read_text(encoding="utf-8").partition("| sweep of |")[0].splitlines()
        if "| catalog alone" in line[:16] and line.count("|") == 8
    }
    for line in errors_table(alone).splitlines()[2:]:
        source = line.split("|")[2]
        assert _figures(told[source]) == pytest.approx(_figures(line), abs=2.0), (
            f"run benchmarks/plan/accuracy.py: {line}"
        )


def test_the_shipped_intervals_are_those_of_the_shipped_rows() -> None:
    measured = measured_steps()
    found = regimes_of(measured, splits_of(measured, calibrated=False))
    for name in (CATALOG_NODE, CATALOG_NODES, CATALOG_HOST):
        assert found[name].low == pytest.approx(regimes()[name].low, abs=0.1), "run benchmarks/plan/accuracy.py"
        assert found[name].high == pytest.approx(regimes()[name].high, abs=0.1)
