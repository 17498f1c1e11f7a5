"""Pictures of a plan: its layouts as points, its pipeline as rows of work."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest

from preflight.report.pictures.pipeline import UNITS, pipeline_picture
from preflight.report.pictures.scatter import scatter
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.plan import Candidate, Pipeline, PipelineSpan, Plan, Point, StepEstimate
from preflight.vocabulary.quantity import GIB, Interval
from preflight.vocabulary.run import ParallelDims, RunSpec


def _candidate(shard: int, seconds: float, gib: float, capacity: float) -> Candidate:
    return Candidate(
        parallel=ParallelDims(dp_shard=shard, zero_stage=3),
        run=RunSpec(micro_batch=1),
        memory=MemoryEstimate(
            device_bytes=Interval(gib * GIB, gib * GIB, gib * GIB), capacity_bytes=int(capacity * GIB), fits="yes"
        ),
        step=StepEstimate(seconds=Interval(seconds, seconds, seconds)),
    )


def _plan(capacity: float) -> Plan:
    one, two, three = (_candidate(*of, capacity) for of in ((8, 1.0, 64.0), (4, 2.0, 32.0), (2, 4.0, 40.0)))
    return Plan(
        chosen=one, candidates=(one, two, three), pareto=(one, two), searched=9, cloud=(Point(2.0, 64.0 * GIB),)
    )


def test_layouts_lie_by_the_logarithm_of_time_and_memory_beneath_the_capacity() -> None:
    drawn = scatter(_plan(80))
    assert drawn is not None
    at = {point["name"]: point for point in drawn["points"] if "name" in point}
    assert [at[f"shard {n}"]["kind"] for n in (8, 4, 2)] == ["best", "front", "other"]
    x = [at[f"shard {n}"]["x"] for n in (8, 4, 2)]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.02)  # 1 s, 2 s, 4 s
    assert at["shard 8"]["y"] < at["shard 2"]["y"] < at["shard 4"]["y"]
    assert all(point["y"] > drawn["limit"] for point in drawn["points"])
    assert drawn["points"][-1]["kind"] == "best"
    assert [tick["name"] for tick in drawn["up"]] == ["32.0 GiB", "64.0 GiB"]


def test_layouts_of_different_batches_lie_by_the_time_for_a_sample() -> None:
    plan = _plan(80)
    twice = [msgspec.structs.replace(one, run=RunSpec(micro_batch=1, global_batch=8)) for one in plan.candidates]
    drawn = scatter(msgspec.structs.replace(plan, candidates=tuple(twice), pareto=(), cloud=(Point(2.0, GIB, 16),)))
    same = scatter(msgspec.structs.replace(plan, candidates=tuple(twice), pareto=(), cloud=(Point(2.0, GIB, 8),)))
    assert drawn is not None
    assert same is not None
    assert [same["time"], drawn["time"]] == ["time of a step", "time for a sample"]
    others = [next(p for p in picture["points"] if "name" not in p)["title"] for picture in (same, drawn)]
    assert others == ["2 s, 1.0 GiB", "125 ms, 1.0 GiB"]


def test_a_capacity_far_above_is_not_drawn() -> None:
    drawn = scatter(_plan(800))
    assert drawn is not None
    assert drawn["limit"] is None


def test_one_layout_is_no_picture() -> None:
    assert scatter(Plan(chosen=None, searched=1)) is None


def _pipeline(micro: int) -> Pipeline:
    """Two stages: forwards of 1 s, backwards of 2 s, the second stage a second later."""
    spans = [
        PipelineSpan(stage=stage, kind=kind, micro=number, chunk=0, start=start, end=start + length)
        for stage in (0, 1)
        for number in range(micro)
        for kind, start, length in (("F", stage + 3.0 * number, 1.0), ("B", stage + 3.0 * number + 1, 2.0))
    ]
    return Pipeline(
        schedule="1f1b", seconds=3.0 * micro + 1, bubble=0.1, micro_batches=micro, shown_micro_batches=micro,
        spans=tuple(spans),
    )  # fmt: skip


def test_every_piece_of_work_lies_where_it_is_done() -> None:
    drawn = pipeline_picture(_pipeline(3))
    assert drawn is not None
    assert [row["name"] for row in drawn["rows"]] == ["stage 0", "stage 1"]
    for row in drawn["rows"]:
        assert sum(piece["width"] for piece in row["pieces"]) == pytest.approx(90, abs=0.1)
        ends = [(piece["x"], piece["x"] + piece["width"]) for piece in sorted(row["pieces"], key=lambda one: one["x"])]
        assert all(end <= start + 0.02 for (_, end), (start, _) in pairwise(ends))
    assert drawn["rows"][1]["pieces"][0]["x"] == 10
    assert "3 x forward (1 s each), 3 x backward (2 s each); waits 10.0 %" in drawn["rows"][0]["title"]
    assert [(tick["at"], tick["name"]) for tick in drawn["ticks"]] == [
        (0.0, "0"), (20.0, "2 s"), (40.0, "4 s"), (60.0, "6 s"), (80.0, "8 s"), (100.0, "10 s"),
    ]  # fmt: skip


def test_many_pieces_are_drawn_as_paths_of_the_same_extent() -> None:
    drawn = pipeline_picture(_pipeline(100))
    assert drawn is not None
    for row in drawn["rows"]:
        assert row["pieces"] == []
        wide = sum(int(width) for one in row["paths"] for width in re.findall(r"M\d+ 0h(\d+)", one["path"]))
        assert wide == pytest.approx(UNITS * 300 / 301, rel=0.01)


def test_without_a_pipeline_there_is_no_picture() -> None:
    assert pipeline_picture(None) is None
