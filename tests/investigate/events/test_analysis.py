"""What goes together with failures: how often chance is taken for it, and how often what is there is found."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from preflight.investigate.events.analysis import analyse, report_of
from preflight.investigate.events.jobs import Job, compare_jobs
from preflight.investigate.events.logger import TrainingEvent
from preflight.investigate.events.precursors import needed
from preflight.investigate.events.timing import periods, since_start
from preflight.vocabulary.association import Associations

pytestmark = pytest.mark.slow

WEEK = 7 * 86400.0


def event(at: float, kind: str) -> TrainingEvent:
    return TrainingEvent(1e9 + at, kind, {}, None)


def week(draw: random.Random, failures: int, ratio: float = 1.0, length: float = WEEK) -> list[TrainingEvent]:
    """Checkpoints every two hours, evaluations every three, changes of the rate now and then, failures of their own.

    After a checkpoint failures are ``ratio`` times as frequent for half an hour.
    """
    found = [event(at, "checkpoint") for at in _every(7200, length)]
    found += [event(at, "eval_start") for at in _every(10800, length)]
    found += [event(draw.uniform(0, length), "lr_change") for _ in range(15)]
    found += [event(draw.uniform(0, length), "batch_size_change") for _ in range(5)]
    while failures:
        at = draw.uniform(0, length)
        if draw.random() < (1.0 if at % 7200 < 1800 and at >= 7200 else 1 / ratio):
            found.append(event(at, "failure"))
            failures -= 1
    return found


def _every(seconds: float, length: float) -> Sequence[float]:
    return [at * seconds for at in range(1, int(length / seconds))]


def flagged(found: Associations) -> set[str]:
    return {one.name for one in found.associations if one.associated}


def test_unrelated_events_are_taken_for_associated_in_5_percent_of_weeks_at_most() -> None:
    draw = random.Random(1)
    weeks = [analyse(week(draw, draw.randint(5, 40)), seed=i) for i in range(120)]
    assert sum(bool(flagged(one)) for one in weeks) / len(weeks) <= 0.05


def test_an_event_that_makes_failures_five_times_as_frequent_is_found() -> None:
    draw = random.Random(2)
    share = 1800 / 7200
    count = needed(share, tests=8)
    assert 10 <= count <= 40
    weeks = [analyse(week(draw, count, ratio=5.0), seed=i) for i in range(50)]
    assert sum("checkpoint" in flagged(one) for one in weeks) / len(weeks) >= 0.8, count
    best = weeks[0].associations[0]
    assert (best.name, best.window) == ("checkpoint", 1800.0)
    assert best.low is not None
    assert best.low < 5
    assert "causes" not in best.text


def test_times_after_events_that_lie_close_are_counted_once() -> None:
    events = [event(at, "save") for at in (100, 150, 200)] + [
        event(at, "failure") for at in (210, 5000, 6000, 7000, 8000)
    ]
    (found,) = analyse([*events, event(0, "other"), event(10000, "other")], windows=[300.0]).associations[:1]
    rows = {one.name: one for one in analyse([*events, event(0, "x"), event(10000, "x")], windows=[300.0]).associations}
    assert rows["save"].exposure[0] * 3600 == pytest.approx(400)
    assert rows["save"].failures == (1, 4)
    assert found.of == "event"


def test_time_in_which_nothing_ran_is_not_observed() -> None:
    events = []
    for start in range(6):
        events += [
            event(start * 10000, "start"),
            event(start * 10000 + 50, "save"),
            event(start * 10000 + 1000, "failure"),
        ]
    found = analyse(events, windows=[100.0])
    assert found.hours == pytest.approx(6000 / 3600)
    assert found.associations[0].exposure[0] * 3600 == pytest.approx(600)


def test_under_five_failures_nothing_is_said() -> None:
    found = analyse(week(random.Random(3), 4))
    assert found.reason is not None
    assert "not enough data: 4 failures" in found.reason
    assert not found.associations
    assert report_of(found, {}).verdict == "UNKNOWN"


def cluster(draw: random.Random, jobs: int, lemon: float, base: float) -> list[Job]:
    """Jobs of four of sixteen nodes; with the first node they fail more often."""
    found = []
    for number in range(jobs):
        nodes = draw.sample(range(16), 4)
        if number % 2 == 0 and 0 not in nodes:
            nodes[0] = 0
        failed = draw.random() < (lemon if 0 in nodes else base)
        found.append(Job(name=str(number), failed=failed, nodes=tuple(f"node{one:02d}" for one in nodes)))
    return found


def test_a_lemon_node_is_found_in_twelve_jobs() -> None:
    draw = random.Random(5)
    hits = wrong = rounds = 0
    while rounds < 60:
        jobs = cluster(draw, 12, 1.0, 0.0)
        found = analyse(jobs=jobs)
        if found.reason is not None:
            continue
        rounds += 1
        nodes = [one for one in found.associations if one.associated]
        hits += bool(nodes) and nodes[0].name == "node00"
        wrong += bool(nodes) and nodes[0].name != "node00"
    assert hits / rounds >= 0.8
    assert wrong == 0


def test_healthy_nodes_are_called_lemons_in_5_percent_of_cases_at_most() -> None:
    draw = random.Random(6)
    found = [flagged(analyse(jobs=cluster(draw, 30, 0.4, 0.4))) for _ in range(150)]
    assert sum(map(bool, found)) / len(found) <= 0.05


def test_a_lemon_is_told_by_a_probability_that_knows_how_little_was_seen() -> None:
    jobs = [Job(name=str(i), failed=i % 3 == 0, nodes=(f"n{i % 5}",)) for i in range(60)]
    jobs += [Job(name=f"bad{i}", failed=True, nodes=("lemon",)) for i in range(8)]
    jobs += [Job(name="once", failed=True, nodes=("once",))]
    rows = {one.name: one for one in compare_jobs(jobs)}
    assert rows["lemon"].associated
    assert rows["lemon"].lemon is not None
    assert rows["once"].lemon is not None
    assert rows["lemon"].lemon > 0.5 > rows["once"].lemon


def test_versions_and_lines_of_logs_are_compared_as_well() -> None:
    jobs = [
        Job(
            name=str(i),
            failed=i < 8,
            versions=(("driver", "550" if i < 9 else "535"),),
            templates=("retry",) if i < 8 else (),
        )
        for i in range(20)
    ]
    found = {(one.of, one.name): one for one in compare_jobs(jobs)}
    assert found["version", "driver=550"].associated
    assert found["template", "retry"].associated
    assert found["template", "retry"].failures == (8, 0)


def test_early_and_late_failures_are_told_from_those_at_any_time() -> None:
    draw = random.Random(7)
    late = [(draw.weibullvariate(100, 4), True) for _ in range(25)]
    found = since_start(late)
    assert found is not None
    assert found.found
    assert found.value > 2
    wrong = 0
    for _ in range(30):
        stretches = [(min(draw.expovariate(0.01), 200.0), True) for _ in range(12)]
        one = since_start([(at, at < 200) for at, _ in stretches])
        wrong += one is not None and one.found
    assert wrong / 30 <= 0.1


def test_failures_at_the_same_hour_are_told_as_periodic() -> None:
    draw = random.Random(8)
    daily = [day * 86400 + draw.gauss(10800, 1200) for day in range(14)]
    found = periods(daily)
    assert found is not None
    assert found.found
    assert "once in a day" in found.text
    wrong = sum(bool((one := periods([draw.uniform(0, WEEK) for _ in range(12)])) and one.found) for _ in range(100))
    assert wrong / 100 <= 0.05


def test_failures_after_which_no_start_is_told_of_are_said_not_to_count() -> None:
    events = [event(0, "start"), *(event(100 + number, "failure") for number in range(7))]
    reason = analyse(events).reason or ""
    assert "1 failure in the events" in reason
    assert "6 more were told of while nothing was observed" in reason
