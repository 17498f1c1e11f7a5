from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.report.pictures.treemap import SHAPES, areas_of, squarified, treemap
from preflight.vocabulary.held import Holder
from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate
from preflight.vocabulary.quantity import GIB

from . import seen


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_areas_are_the_bytes_and_sum_to_the_peak(shape: tuple[float, float]) -> None:
    areas = areas_of(seen.SEEN, seen.PROFILE, shape)
    assert sum(one.bytes for one in areas) == pytest.approx(seen.PARTS.total)
    assert sum(one.width * one.height for one in areas) == pytest.approx(100 * 100)
    for one in areas:
        assert one.width * one.height / 1e4 == pytest.approx(one.bytes / seen.PARTS.total)


def test_holders_lie_within_their_part_and_leave_the_rest() -> None:
    areas = areas_of(seen.SEEN, seen.PROFILE, SHAPES["wide"])
    found = {one.label: one.bytes / GIB for one in areas if one.part in ("activations", "model_parameters")}
    assert found == {
        "activations: blocks.*.mlp (train.py:9)": 9, "activations: train.py:30": 7, "activations, others": 4,
        "model parameters: embed.weight (train.py:4)": 1, "model parameters, others": 3,
    }  # fmt: skip


def test_holders_that_do_not_fit_their_part_are_left_out() -> None:
    profile = msgspec.structs.replace(seen.PROFILE, holders=(Holder("gradient", "x", "a.py:1", int(5 * GIB)),))
    assert "gradients" in [one.label for one in areas_of(seen.SEEN, profile, SHAPES["wide"])]


def test_what_was_read_from_the_script_has_no_holders() -> None:
    assert len(areas_of(seen.READ, seen.PROFILE, SHAPES["wide"])) == 7
    assert treemap(MemoryEstimate(reason="no script")) is None


@given(st.lists(st.floats(1e3, 1e12), min_size=1, max_size=30), st.floats(50, 1000), st.floats(50, 1000))
def test_rectangles_cover_the_box_without_overlap(sizes: list[float], width: float, height: float) -> None:
    sizes = sorted(sizes, reverse=True)
    boxes = squarified(sizes, (0.0, 0.0, width, height))
    whole = width * height
    for size, (x, y, wide, high) in zip(sizes, boxes, strict=True):
        assert wide * high == pytest.approx(whole * size / sum(sizes), rel=1e-6)
        assert x >= -1e-6
        assert y >= -1e-6
        assert x + wide <= width * (1 + 1e-6)
        assert y + high <= height * (1 + 1e-6)
    for at, (x, y, wide, high) in enumerate(boxes):
        for other_x, other_y, other_wide, other_high in boxes[:at]:
            across = min(x + wide, other_x + other_wide) - max(x, other_x)
            down = min(y + high, other_y + other_high) - max(y, other_y)
            assert across <= 1e-6 * width or down <= 1e-6 * height


def test_labels_stand_only_where_they_fit() -> None:
    drawn = treemap(seen.SEEN, seen.PROFILE)
    assert drawn is not None
    for shape in drawn["shapes"]:
        pixels = SHAPES[shape["name"]]
        for area in shape["areas"]:
            assert 15 * len(area["lines"]) <= area["height"] / 100 * pixels[1]
            for line in area["lines"]:
                assert len(line) * 6.7 <= area["width"] / 100 * pixels[0]
    assert ["gradients", "4.0 GiB"] in [area["lines"] for area in drawn["shapes"][0]["areas"]]


def test_a_name_is_folded_before_it_is_left_out_and_a_size_stands_where_no_name_does() -> None:
    parts = MemoryBreakdown(
        activations=int(21.1 * GIB), optimizer_states=int(11.6 * GIB), model_parameters=int(5.8 * GIB),
        fragmentation=int(4.9 * GIB), logits_and_loss=int(2.7 * GIB), context=int(0.9 * GIB),
    )  # fmt: skip
    drawn = treemap(MemoryEstimate(breakdown=parts, method="static"))
    assert drawn is not None
    told = {(shape["name"], area["part"]): area["lines"] for shape in drawn["shapes"] for area in shape["areas"]}
    assert told["wide", "logits_and_loss"] == ["logits and", "loss", "2.7 GiB"]
    assert told["narrow", "model_parameters"] == ["model", "parameters", "5.8 GiB"]
    assert told["narrow", "fragmentation"] == ["4.9 GiB"]
