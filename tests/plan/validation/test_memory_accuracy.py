"""The goals for memory on the shipped rows, and the page that tells how far they are met."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from preflight.plan.validation.memory import validate_memory
from preflight.plan.validation.table import memory_table
from preflight.vocabulary.validation import MemoryValidation

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "accuracy-of-memory.md"


@cache
def found() -> MemoryValidation:
    return validate_memory()


def mae(source: str) -> float:
    return next(entry.mae for entry in found().errors if entry.source == source and entry.quantity == "allocated")


@pytest.mark.parametrize(
    "source", ["litgpt-config-hub", "litgpt-resource-tables", "litgpt-thunder", "torchao-optim", "torchtune"]
)
def test_allocated_memory_of_eager_and_compiled_stacks_is_within_5_percent(source: str) -> None:
    assert mae(source) <= 0.05


def test_allocated_memory_of_megatron_is_within_1_5_percent() -> None:
    assert mae("megatron-lm-ci") <= 0.015


def test_intervals_hold_at_least_88_percent_of_the_readings() -> None:
    assert found().macro is not None
    assert found().macro.coverage >= 0.88
    rows = found().residuals
    assert sum(row.inside for row in rows) / len(rows) >= 0.88


def test_verdicts_that_were_given_are_right_in_95_of_100_cases() -> None:
    assert found().fits_right is not None
    assert found().fits_right >= 0.95


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8").rstrip().endswith(memory_table(found()).rstrip()), (
        "run benchmarks/memory_accuracy.py --page"
    )
