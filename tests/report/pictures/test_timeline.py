from __future__ import annotations

import re

import msgspec
import pytest

from preflight.report.pictures.timeline import UNITS, columns_of, timeline
from preflight.vocabulary.memory import MemoryEstimate, TimelinePoint
from preflight.vocabulary.quantity import GIB

from .. import samples
from . import seen


def _heights(path: str) -> list[float]:
    """The height of every column of ten units of a path, in units of the drawing."""
    y = float(re.match(r"M0 ([\d.]+)", path)[1])  # type: ignore[index]
    found: list[float] = []
    for kind, number in re.findall(r"([hv])(-?\d+)", path):
        if kind == "h":
            found += [UNITS - y] * (int(number) // 10)
        else:
            y += int(number)
    return found


def test_a_column_is_as_high_as_its_bytes_above_those_below_it() -> None:
    drawn = timeline(seen.SEEN, seen.PROFILE)
    assert drawn is not None
    columns = columns_of(seen.SEEN, seen.PROFILE)
    assert [one.height / GIB for one in columns] == pytest.approx([5, 17.00098, 25, 29, 13], abs=1e-4)
    full = 39 * GIB * 1.06  # the 38 GiB that were taken, and the context, are the most
    top = _heights(drawn["areas"][0]["path"])
    assert top == pytest.approx([UNITS * one.height / full for one in columns], abs=0.6)
    assert [area["part"] for area in drawn["areas"]][-1] == "context"
    below = [0.0] * len(columns)
    for area in reversed(drawn["areas"]):
        heights = _heights(area["path"])
        for at, one in enumerate(columns):
            grown = UNITS * one.parts.get(area["part"], 0.0) / full
            assert heights[at] - below[at] == pytest.approx(grown, abs=1.1)
        below = heights


def test_the_capacity_lies_below_what_does_not_fit_and_above_what_does() -> None:
    drawn = timeline(seen.SEEN, seen.PROFILE)
    assert drawn is not None
    taken = _heights(drawn["reserved"])
    limit = drawn["limit"] / 100 * UNITS
    assert [height > limit for height in taken] == [False, False, False, True, True]
    assert drawn["peak"]["at"] == 70.0
    assert drawn["told"] == "highest in backward of step 0: 29.0 GiB"
    roomy = timeline(msgspec.structs.replace(seen.SEEN, capacity_bytes=int(80 * GIB)), seen.PROFILE)
    assert roomy is not None
    assert all(height < roomy["limit"] / 100 * UNITS for height in _heights(roomy["reserved"]))


def test_phases_and_steps_lie_beneath_their_columns() -> None:
    drawn = timeline(seen.SEEN, seen.PROFILE)
    assert drawn is not None
    assert [(run["name"], run["x"], run["width"]) for run in drawn["phases"]] == [
        ("init", 0.0, 20.0), ("forward", 20.0, 40.0), ("backward", 60.0, 20.0), ("forward", 80.0, 20.0),
    ]  # fmt: skip
    assert [(run["name"], run["x"]) for run in drawn["steps"]] == [("step 0", 0.0), ("step 1", 80.0)]


def test_a_phase_whose_name_is_too_long_for_a_narrow_page_has_its_short_one_there() -> None:
    drawn = timeline(samples.NO_GO.memory, None)
    assert drawn is not None
    assert [(run["name"], run["room"], run["narrow"]) for run in drawn["phases"]] == [
        ("init", "", None), ("forward", "", None), ("backward", "", None), ("optimizer", "wide", "opt"),
        ("forward", "", None),
    ]  # fmt: skip


def test_ticks_are_round_and_rise() -> None:
    drawn = timeline(seen.SEEN, seen.PROFILE)
    assert drawn is not None
    assert [tick["name"] for tick in drawn["ticks"]] == ["0", "10.0 GiB", "20.0 GiB", "30.0 GiB", "40.0 GiB"]
    at = [tick["at"] for tick in drawn["ticks"]]
    assert at == sorted(at)
    assert drawn["limit"] == pytest.approx(at[3] * 36 / 30, abs=0.05)


def test_what_was_read_is_drawn_phase_by_phase_and_what_nobody_owns_is_said() -> None:
    columns = columns_of(seen.READ, seen.PROFILE)
    assert [(one.step, one.phase) for one in columns] == [(0, "init"), (0, "forward"), (0, "backward")]
    assert columns[1].parts == {"context": GIB, "model_parameters": 4 * GIB, "activations": 20 * GIB}
    assert columns[2].parts == {"context": GIB, "unknown": 36 * GIB}
    drawn = timeline(seen.READ)
    assert drawn is not None
    assert drawn["fine"] is False
    assert {"part": "unknown", "name": "not known"} in drawn["legend"]


def test_growth_is_drawn_behind_what_was_seen() -> None:
    grown = TimelinePoint(step=900, phase="growth", allocated_bytes=50 * GIB, reserved_bytes=52 * GIB)
    columns = columns_of(msgspec.structs.replace(seen.SEEN, timeline=(*seen.SEEN.timeline, grown)), seen.PROFILE)
    assert len(columns) == len(seen.PROFILE.course) + 1
    assert (columns[-1].step, columns[-1].height) == (900, 51 * GIB)


def test_without_moments_there_is_no_picture() -> None:
    assert timeline(MemoryEstimate(reason="no script")) is None
