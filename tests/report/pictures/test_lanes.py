"""Pictures with a row for each rank: the timeline of an incident, and what happened over steps."""

from __future__ import annotations

import pytest

from preflight.report.pictures.heatmap import MOST_ROWS, heatmap, shade
from preflight.report.pictures.incident import Clock, incident_picture, since
from preflight.vocabulary.incident import Moment, Quote

QUOTE = Quote("a.log", 1, "said")


def _moment(time: float | None, role: str, rank: int | None = None, node: str | None = None) -> Moment:
    return Moment(time=time, role=role, rank=rank, node=node, text=f"{role} of {rank}", quote=QUOTE)  # type: ignore[arg-type]


def test_moments_lie_in_order_of_their_time() -> None:
    clock = Clock([0.0, 10.0, 20.0, 40.0])
    assert [clock.at(time) for time in (0, 10, 20, 40)] == [0, 25, 50, 100]
    assert clock.silences == []
    assert [tick["name"] for tick in clock.ticks] == ["0 s", "40 s"]


def test_a_long_silence_is_cut_short_and_said() -> None:
    clock = Clock([0.0, 30.0, 864_030.0, 864_060.0])
    assert [one["name"] for one in clock.silences] == ["10 days"]
    places = [clock.at(time) for time in (0, 15, 30, 864_030, 864_045, 864_060)]
    assert places == sorted(places)
    assert places[2] - places[0] == pytest.approx(places[5] - places[3], abs=0.01)
    assert places[3] - places[2] == pytest.approx(clock.silences[0]["width"], abs=0.01)
    assert (places[0], places[5]) == (0.0, 100.0)


@pytest.mark.parametrize("seconds", [0.25, 119, 121, 7300, 2e5])
def test_times_are_told_in_a_unit_with_few_digits(seconds: float) -> None:
    number, unit = since(seconds).split()
    size = {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    assert float(number) * size == pytest.approx(seconds, rel=0.006)
    assert 0.2 < float(number) < 121


def test_lanes_are_ranks_then_nodes_then_the_job_and_the_cause_lies_on_top() -> None:
    drawn = incident_picture(
        (
            _moment(5.0, "root", rank=1),
            _moment(5.0, "cascade", rank=1),
            _moment(0.0, "progress", rank=0),
            _moment(9.0, "teardown", node="a-node-with-a-very-long-name"),
            _moment(9.0, "teardown"),
            _moment(None, "root", rank=7),
        )
    )
    assert drawn is not None
    assert [row["name"] for row in drawn["rows"]] == ["rank 0", "rank 1", "a-node-with-a-v…", "the job"]
    assert drawn["long"] is True
    assert drawn["marks"][-1]["role"] == "root"
    together = [mark for mark in drawn["marks"] if mark["lane"] == drawn["rows"][1]["y"]]
    assert len({mark["y"] for mark in together}) == 2
    assert all(row["y"] <= mark["y"] <= row["y"] + drawn["row"] for mark in together for row in drawn["rows"][1:2])


def test_moments_of_one_time_are_no_timeline() -> None:
    assert incident_picture((_moment(5.0, "root", rank=1), _moment(5.0, "cascade", rank=2))) is None


def test_cells_lie_in_the_row_of_their_rank_and_are_as_strong_as_their_count() -> None:
    drawn = heatmap(
        [(0, 0.0, 1), (2, 50.0, 10), (2, 90.0, 0)], ranks=(0, 1, 2), first=0.0, last=100.0, width=10.0, ticks=[],
        title=lambda rank, at, count: f"{rank} {at:g} {count}", accused=(2,),
    )  # fmt: skip
    assert drawn is not None
    assert [(cell["x"], cell["width"], cell["shade"], cell["title"]) for cell in drawn["cells"]] == [
        (0.0, 10.0, 1, "0 0 1"), (50.0, 10.0, 5, "2 50 10"),
    ]  # fmt: skip
    rows = {row["name"]: row for row in drawn["rows"]}
    assert drawn["cells"][1]["y"] == rows["rank 2"]["y"]
    assert [row["culprit"] for row in drawn["rows"]] == [False, False, True]
    assert drawn["scale"][0]["name"] == "1 to 2"


@pytest.mark.parametrize("most", [1, 3, 5, 7, 1000])
def test_the_legend_tells_the_shade_of_every_count(most: int) -> None:
    drawn = heatmap(
        [(0, float(count), count) for count in range(1, most + 1)], ranks=(), first=0.0, last=most + 1.0, width=1.0,
        ticks=[], title=lambda rank, at, count: "",
    )  # fmt: skip
    assert drawn is not None
    told = {}
    for one in drawn["scale"]:
        low, _, high = one["name"].replace(",", "").partition(" to ")
        told |= dict.fromkeys(range(int(low), int(high or low) + 1), one["shade"])
    assert told == {count: shade(count, most) for count in range(1, most + 1)}


def test_of_many_ranks_the_accused_are_shown() -> None:
    drawn = heatmap(
        [(900, 0.0, 1)],
        ranks=range(1000),
        first=0.0,
        last=1.0,
        width=1.0,
        ticks=[],
        title=lambda *_: "",
        accused=(950,),
    )
    assert drawn is not None
    assert len(drawn["rows"]) == MOST_ROWS
    assert {"rank 900", "rank 950"} <= {row["name"] for row in drawn["rows"]}
    assert drawn["left_out"] == 1000 - MOST_ROWS


def test_of_many_ranks_with_something_those_with_most_are_shown() -> None:
    cells = [(rank, 0.0, 1) for rank in range(500)] + [(rank, 1.0, 9) for rank in (123, 499)]
    drawn = heatmap(cells, ranks=range(500), first=0.0, last=2.0, width=1.0, ticks=[], title=lambda *_: "")
    assert drawn is not None
    assert {"rank 123", "rank 499"} <= {row["name"] for row in drawn["rows"]}


@pytest.mark.parametrize("accused", [(3_919,), (7, 3_919, 5_000)])
def test_of_thousands_of_ranks_the_accused_ones_have_their_lane(accused: tuple[int, ...]) -> None:
    every = tuple(range(4_096))
    said = [Moment(time=time, role="cascade", ranks=every, text="timed out", quote=QUOTE) for time in (0.0, 5.0)]
    drawn = incident_picture((*said, _moment(None, "root", rank=3_919)), accused)
    assert drawn is not None
    assert len(drawn["rows"]) == MOST_ROWS
    assert [row["name"] for row in drawn["rows"] if row["culprit"]] == [f"rank {one}" for one in accused if one < 4_096]
    assert drawn["left_out"] == 4_096 - MOST_ROWS
