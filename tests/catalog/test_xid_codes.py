"""The table of the driver's error numbers."""

from __future__ import annotations

import pytest

from preflight.catalog import files
from preflight.catalog.xid_codes import PATH, driver_error, driver_errors


@pytest.mark.parametrize(("kind", "at_least"), [("xid", 100), ("sxid", 90)])
def test_every_number_says_what_it_means_and_what_to_do(kind: str, at_least: int) -> None:
    known = driver_errors(kind)  # type: ignore[arg-type]
    assert len(known) >= at_least
    for code, error in known.items():
        assert error.code == code
        assert error.name
        assert len(error.meaning) > 5
        assert error.advice.endswith(".")
        assert not (error.fatal and error.category in ("none", "usercode"))


def test_every_action_is_used() -> None:
    used = {error.action for kind in ("xid", "sxid") for error in driver_errors(kind).values()}  # type: ignore[arg-type]
    assert used == set(files.parse(PATH)["actions"])


@pytest.mark.parametrize(
    ("code", "category", "fatal", "follows", "action"),
    [
        (13, "usercode", False, False, "restart-program"),
        (31, "usercode", False, False, "restart-program"),
        (45, "other", False, True, "look-earlier"),
        (48, "hardware", True, False, "drain-and-reset"),
        (63, "none", False, False, "none"),
        (79, "hardware", True, False, "restart-node"),
        (94, "hardware", False, False, "restart-program"),
        (95, "hardware", True, False, "reset-device"),
        (149, "hardware", False, False, "check-link"),
    ],
)
def test_the_numbers_that_training_meets(code: int, category: str, fatal: bool, follows: bool, action: str) -> None:
    error = driver_error(code)
    assert error is not None
    assert (error.category, error.fatal, error.follows, error.action) == (category, fatal, follows, action)


def test_a_switch_and_an_unknown_number() -> None:
    halted = driver_error(22003, "sxid")
    assert halted is not None
    assert halted.fatal
    assert driver_error(22003) is None
    assert driver_error(9999) is None
