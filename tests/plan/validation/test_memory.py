"""Estimates of memory against the measurements that are shipped."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from preflight.catalog.measured import measured_rows
from preflight.plan.validation.expressed import CannotExpress
from preflight.plan.validation.memory import compared, residual_of, validate_memory
from preflight.plan.validation.sources import express, sources
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.validation import FitsCounts, MemoryValidation, Residual


@cache
def found() -> MemoryValidation:
    return validate_memory()


def test_every_row_is_compared_or_refused_with_a_reason() -> None:
    refused = sum(left.rows for left in found().refused)
    assert len(found().residuals) + refused == found().total_rows == len(measured_rows("memory"))
    assert all(left.reason for left in found().refused)


def test_every_source_file_speaks_for_rows_that_are_there() -> None:
    shipped = {row["source"].replace(".", "-") for name in ("memory", "throughput") for row in measured_rows(name)}
    assert {name for name in sources() if not name.startswith("vtrain")} <= shipped


def test_parts_of_an_estimate_add_up_to_the_device() -> None:
    for row in found().residuals:
        if row.quantity == "device":
            assert sum(row.parts.values()) == pytest.approx(row.estimate.mid)


def test_sources_weigh_alike_in_the_macro_average() -> None:
    assert found().macro is not None
    assert found().macro.mae == pytest.approx(statistics.fmean(entry.mae for entry in found().errors))


def test_readings_are_compared_with_their_own_kind() -> None:
    memory = MemoryEstimate(
        peak_bytes=Interval(1, 2, 3), reserved_bytes=Interval(2, 3, 4), device_bytes=Interval(3, 4, 5)
    )
    assert compared("torch max_memory_reserved", memory) == ("reserved", memory.reserved_bytes)
    assert compared("nvidia-smi", memory) == ("device", memory.device_bytes)
    assert compared("max_memory_allocated", memory) == ("allocated", memory.peak_bytes)
    assert compared("peak memory", memory)[1] is None


def test_a_row_of_an_unknown_source_cannot_be_expressed() -> None:
    with pytest.raises(CannotExpress):
        express(measured_rows("memory")[0] | {"source": "somebody"})


def test_a_published_peak_below_the_states_is_no_measurement() -> None:
    row = next(row for row in measured_rows("memory") if row["id"] == "megatron-lm-ci-0028")
    assert residual_of(row).measured > 0
    with pytest.raises(CannotExpress, match="below the parameters"):
        residual_of(row | {"measured_peak_gib": "0.01"})


def test_error_and_coverage_of_a_row() -> None:
    row = Residual(
        id="a", source="s", model="m", quality="A", quantity="device", measured=10.0, estimate=Interval(9, 11, 12)
    )
    assert row.error == pytest.approx(0.1)
    assert row.inside


def test_right_verdicts_are_those_that_were_given() -> None:
    fits = (FitsCounts(observed="fitted", yes=8, unknown=5, no=1), FitsCounts(observed="ran out", no=1))
    assert MemoryValidation(
        total_rows=0, errors=(), macro=None, residuals=(), refused=(), fits=fits, fits_refused=()
    ).fits_right == pytest.approx(0.9)
