"""Dumps that real gloo jobs wrote; ``scripts/record.py`` makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.investigate.flight.votes import FlightEvidence, votes_of_flights
from preflight.source.dumps import flight_recorder
from preflight.source.dumps.opening import format_of
from preflight.vocabulary.log import LogFile

DATA = Path(__file__).parent / "data"
SCENARIOS = sorted(path.name for path in DATA.iterdir() if path.is_dir())


def of_folder(folder: Path) -> tuple[FlightEvidence, int | None]:
    planted = json.loads((folder / "planted.json").read_text())
    files = [
        LogFile(index=index, path=f"{folder.name}/{path.name}", kind="flight")
        for index, path in enumerate(sorted(folder.glob("rank_*")))
    ]
    flights = [
        one for file in files for one in flight_recorder.read((folder.parent / file.path).read_bytes(), file).flights
    ]
    return votes_of_flights(flights, world_size=planted["world_size"], files=files), planted["rank"]


# What the recorder of gloo does not keep: point-to-point calls, and who sends a broadcast.
UNTOLD = {"pipeline", "source"}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in {"healthy", *UNTOLD}])
def test_the_planted_rank_of_a_real_job_has_the_most_votes(name: str) -> None:
    evidence, planted = of_folder(DATA / name)
    assert evidence.ranks[0].rank == planted
    assert evidence.ranks[0].weight >= 2.0
    assert evidence.ranks[0].weight - evidence.ranks[1].weight >= 1.0
    assert evidence.text is not None


@pytest.mark.parametrize("name", sorted(UNTOLD))
def test_where_the_recorder_cannot_tell_nobody_alone_is_named(name: str) -> None:
    evidence, planted = of_folder(DATA / name)
    first, *others = evidence.ranks
    assert first.rank == planted or first.weight < 1.0 or others[0].weight >= first.weight - 0.01
    assert evidence.text is not None


def test_a_job_that_ends_well_gives_no_votes() -> None:
    evidence, _ = of_folder(DATA / "healthy")
    assert evidence.ranks == ()
    assert evidence.text is None


def test_the_person_s_own_frames_of_both_sides_are_shown() -> None:
    evidence, _ = of_folder(DATA / "skipped")
    difference = evidence.differences[0]
    assert difference.minority == (1,)
    assert {place.function for place in difference.places if place} == {"train_step", "log_metrics"}
    assert evidence.category == "usercode"


DUMPS = sorted(path for path in DATA.glob("*/rank_*"))


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_dump_is_read(path: Path) -> None:
    content = path.read_bytes()
    assert format_of(path.name, content) is flight_recorder
    part = flight_recorder.read(content, LogFile(index=0, path=str(path), kind="flight"))
    flight = part.flights[0]
    assert flight.problem is None
    assert flight.backend == "gloo"
    assert flight.who.rank == int(path.stem.split("_")[1])
    assert flight.enqueued["0"] >= flight.completed["0"]
    assert all(call.name and call.sequence > 0 for call in flight.calls)


def test_there_are_dumps_of_many_faults() -> None:
    assert len({path.parent for path in DUMPS}) >= 12
