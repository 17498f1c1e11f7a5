from __future__ import annotations

import msgspec
import pytest

from preflight.report.pictures.roofline import bound, roofline_picture
from preflight.vocabulary.roofline import Roofline, RoofPoint


def _point(operator: str, flop: float, moved: float, seconds: float, **more: str) -> RoofPoint:
    phase, dtype = more.pop("phase", "forward"), more.pop("dtype", "bfloat16")
    return RoofPoint(
        operator=operator, phase=phase, dtype=dtype, calls=1.0, flop=flop, bytes=moved, seconds=seconds, **more
    )


# 1.5 TB/s and 300 TFLOP/s meet at 200 FLOP for each byte.
ROOF = Roofline(
    gpu="NVIDIA Test 1",
    peaks={"bfloat16": 300e12, "float32": 15e12},
    bandwidth=1.5e12,
    points=(
        _point("mm", 400e12, 1e12, 2.0),
        _point("bmm", 50e12, 1e12, 1.0, phase="backward"),
        _point("conv", 50e12, 1e12, 4.0, dtype="float32"),
    ),
    moving_seconds=3.0,
)


def test_an_operator_lies_beneath_the_roof_that_limits_it() -> None:
    assert [bound(point, ROOF) for point in ROOF.points] == ["arithmetic", "memory", "arithmetic"]
    drawn = roofline_picture(ROOF)
    assert drawn is not None
    by_name = {row["name"]: row for row in drawn["rows"]}
    # 200 TFLOP/s of 300; 50 of 50 FLOP/byte x 1.5 TB/s = 75; 12.5 of fp32's 15.
    assert [by_name[name]["reached"] for name in ("mm", "bmm", "conv")] == ["67 %", "67 %", "83 %"]
    assert by_name["mm"]["share"] == "20.0 %"
    assert drawn["moving"] == "30 %"
    flat = {roof["name"]: roof for roof in drawn["roofs"]}["bf16: 300 TFLOP/s"]
    assert all(row["y"] > flat["y"] for row in drawn["rows"])  # y grows downwards


def test_the_slope_meets_the_highest_flat_roof_at_the_ridge() -> None:
    drawn = roofline_picture(ROOF)
    assert drawn is not None
    slope = drawn["slope"]
    flat = next(roof for roof in drawn["roofs"] if roof["name"].startswith("bf16"))
    assert (slope["x2"], slope["y2"]) == (pytest.approx(flat["x"], abs=0.02), pytest.approx(flat["y"], abs=0.02))
    assert slope["x1"] < slope["x2"]
    assert slope["y1"] > slope["y2"]
    low = next(roof for roof in drawn["roofs"] if roof["name"].startswith("fp32"))
    assert low["x"] < flat["x"]
    assert low["y"] > flat["y"]


def test_like_operators_at_one_place_are_one_dot_and_numbers_do_not_overlap() -> None:
    twice = msgspec.structs.replace(
        ROOF,
        points=(*ROOF.points, _point("mm", 400e12, 1e12, 2.0, size="64 x 64 x 64"), _point("add", 400e12, 1e12, 2.0)),
    )
    drawn = roofline_picture(twice)
    assert drawn is not None
    assert [row["name"] for row in drawn["rows"]].count("mm 64 x 64 x 64") == 1
    assert len(drawn["rows"]) == 4
    told = {row["name"]: row["written"] for row in drawn["rows"]}
    assert told["add"] is False
    assert told["bmm"] is True


def test_without_time_there_is_no_picture() -> None:
    assert roofline_picture(msgspec.structs.replace(ROOF, points=(_point("mm", 1.0, 1.0, 0.0),))) is None
