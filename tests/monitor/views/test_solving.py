"""Shares that make numbers add up to others are found where they are determined."""

from __future__ import annotations

import pytest

from preflight.monitor.views.solving import fitted


def test_shares_are_found_also_where_columns_nearly_say_the_same() -> None:
    rows = [[1.0 + 1e-5 * at, 1.0 + 1e-5 * at * at] for at in range(6)]
    found = fitted(rows, [2 * one + 0.5 * other for one, other in rows])
    assert found is not None
    assert found.shares == pytest.approx([2, 0.5], abs=1e-6)
    assert found.off < 1e-12


def test_what_does_not_add_up_is_told_by_how_much() -> None:
    found = fitted([[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0])
    assert found is not None
    assert found.off > 0.2


def test_columns_that_are_one_and_the_same_determine_nothing() -> None:
    assert fitted([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], [1.0, 2.0, 3.0]) is None
