"""The budget is kept: what costs too much is taken more rarely, and that is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.monitor.collect import budget, entry, modules
from preflight.monitor.collect.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded


class Run:
    """A run whose clock is arithmetic: an iteration takes a while, and recording it some of that."""

    def __init__(self, monkeypatch: Any, step: float, cost: Callable[[Run], float], **settings: Any) -> None:
        known = Settings("", **settings)
        self.now = 0.0
        self.written = 0.0  # what the writer spends beside the program, as a share of what is spent in it
        self.step, self.cost = step, cost
        self.rows: list[tuple[Any, ...]] = []
        self.shares: list[float] = []
        self.recorder: Any = SimpleNamespace(
            settings=known, iteration=0, spent=0, detail_until=max(known.detail_first, known.detail_young),
            detail_every=known.detail_every,
            norms_every=known.norms_every, repeats=known.repeats, number=lambda: 0, put=lambda kind, row: self.rows.append(row),
            beside=lambda: int(self.recorder.spent * self.written),
        )  # fmt: skip
        monkeypatch.setattr(budget, "clock", lambda: self.now)
        self.repeated: Any = SimpleNamespace(told=0, left=0, spent=0)
        self.budget = budget.Budget(self.recorder, self.repeated)

    @property
    def detail(self) -> bool:
        number, every = self.recorder.iteration, self.recorder.detail_every
        return number < self.recorder.detail_until or (every > 0 and number % every == 0)

    @property
    def norms(self) -> bool:
        return self.detail or self.recorder.iteration % self.recorder.norms_every == 0

    def go(self, iterations: int) -> float:
        """Go on for so many iterations; returns the share of recording in them."""
        spent = self.recorder.spent
        began = self.now
        for _ in range(iterations):
            cost = self.cost(self)
            self.recorder.spent += int(cost * 1e9)
            self.now += self.step + cost
            self.budget.boundary()
            self.recorder.iteration += 1
        return (self.recorder.spent - spent) / 1e9 / (self.now - began)


@pytest.mark.parametrize("step", [0.002, 0.02, 0.1, 1.0])
@pytest.mark.parametrize(("detail", "norms"), [(0.3, 0.01), (0.3, 0.1), (2.0, 0.05), (0.05, 0.03)])
def test_the_share_of_a_long_run_is_kept(monkeypatch: Any, step: float, detail: float, norms: float) -> None:
    def cost(run: Run) -> float:
        return step * (detail if run.detail else norms if run.norms else 0.002)

    run = Run(monkeypatch, step, cost)
    run.go(4000)
    assert run.go(8192) <= 0.02 * 1.1


def test_steps_that_are_not_short_are_kept_to_it_from_the_beginning(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.5 if run.detail else 0.015))
    run.go(60)
    assert run.go(1000) <= 0.02
    assert [row[2] for row in run.rows].count("detail") >= 1


def test_a_fifth_of_the_budget_is_kept_for_what_the_clock_does_not_see(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.5 if run.detail else 0.01 if run.norms else 0.002))
    run.go(60)
    assert run.go(1000) <= 0.02 * 0.8


def test_what_is_written_beside_the_program_counts(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.5 if run.detail else 0.01 if run.norms else 0.002))
    run.written = 0.5
    run.go(60)
    assert run.go(1000) * 1.5 <= 0.02 * 0.8


@pytest.mark.parametrize("always", [0.015, 0.05])
def test_norms_are_not_given_up_where_that_saves_nothing(monkeypatch: Any, always: float) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.5 if run.detail else always))
    run.go(1000)
    assert run.recorder.norms_every == 1
    # That norms cost nothing is learnt by leaving them out once.
    assert [row[3] for row in run.rows if row[2] == "norms"] == [2, 1]


def test_norms_after_a_step_are_given_up_last_and_taken_up_again(monkeypatch: Any) -> None:
    costs = [0.008]

    def cost(run: Run) -> float:
        gradients, after = 1.25 * costs[0], costs[0]
        each = after if run.norms or run.recorder.norms_every <= 8 else 0.0
        return 0.15 * (0.05 if run.detail else 0.001 + (gradients if run.norms else 0.0) + each)

    run = Run(monkeypatch, 0.15, cost, detail_every=512)
    run.go(600)
    assert 1 < run.recorder.norms_every <= 8  # what is taken after each step does by itself fit into the budget
    costs[0] = 0.05
    run.go(600)
    assert run.recorder.norms_every > 8
    assert run.go(1000) <= 0.02
    costs[0] = 0.001
    run.go(4000)
    assert run.recorder.norms_every == 1


def test_nothing_is_changed_back_and_forth(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.3 if run.detail else 0.03 if run.norms else 0.005))
    run.go(2000)
    changes = len(run.rows)
    run.go(10_000)
    assert len(run.rows) == changes
    assert run.recorder.norms_every <= 8


def test_what_costs_little_is_taken_as_often_as_was_asked_for(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.05 if run.detail else 0.01))
    run.go(500)
    assert (run.recorder.detail_every, run.recorder.norms_every) == (16, 1)
    assert not run.rows


def test_what_was_thinned_is_thickened_when_it_costs_little_again(monkeypatch: Any) -> None:
    costs = [0.5]
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (costs[0] if run.norms else 0.001))
    run.go(400)
    assert run.recorder.norms_every > 1
    costs[0] = 0.001
    run.go(10_000)
    assert (run.recorder.detail_every, run.recorder.norms_every) == (16, 1)


def test_a_young_run_of_short_steps_is_recorded_in_detail_for_some_seconds_in_all(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.02, lambda run: 0.01 if run.detail else 0.0001, detail_young=500)
    run.go(500)
    # 2 s at 10 ms each, less the 1.6 % of 20 ms that each may cost anyway.
    assert run.recorder.detail_until == pytest.approx(2.0 / (0.01 - 0.016 * 0.02), abs=5)


def test_a_run_stays_young_no_longer_than_that_however_little_it_costs(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.02, lambda run: 0.0001, detail_young=500)
    run.go(1000)
    assert run.recorder.detail_until == 500
    assert not run.rows


def test_long_steps_are_young_only_within_the_budget(monkeypatch: Any) -> None:
    dear = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.05 if run.detail else 0.001), detail_young=500)
    dear.go(100)
    assert dear.recorder.detail_until <= 6
    cheap = Run(monkeypatch, 0.5, lambda run: 0.5 * (0.012 if run.detail else 0.001), detail_young=500)
    cheap.go(600)
    assert cheap.recorder.detail_until == 500


def test_a_phase_that_begins_when_the_run_is_no_longer_young_is_not_cut_short(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.15, lambda run: 0.15 * (0.05 if run.detail else 0.001), detail_young=500)
    run.go(50)
    run.recorder.detail_until = 60
    run.go(20)
    assert run.recorder.detail_until == 60


def test_without_a_limit_nothing_is_thinned(monkeypatch: Any) -> None:
    run = Run(monkeypatch, 0.01, lambda run: 0.01, budget=0)
    run.go(500)
    assert not run.rows


def test_repeated_passes_are_counted_before_norms_are_given_up(monkeypatch: Any) -> None:
    """A pass costs 0.1 ms; of forty in an iteration those that come again are counted where all of them cost too much."""
    passes, each = [40], 1e-4

    def cost(run: Run) -> float:
        most = run.recorder.repeats
        told = passes[0] if run.detail or not most else min(passes[0], most)
        run.repeated.told += told
        run.repeated.left += passes[0] - told
        run.repeated.spent += int(told * each * 1e9)
        return told * each + (0.0004 if run.norms else 0.0)

    run = Run(monkeypatch, 0.15, cost, detail_every=0)
    run.go(100)
    assert run.recorder.repeats == 4
    assert run.recorder.norms_every == 1
    assert [(row[2], row[3]) for row in run.rows] == [("repeated passes", 4)]
    assert run.go(500) <= 0.02
    passes[0] = 5
    run.go(2000)
    assert run.recorder.repeats == 0
    assert run.go(500) <= 0.02


def test_of_repeated_passes_the_first_alone_is_told_where_some_are_too_many(monkeypatch: Any) -> None:
    def cost(run: Run) -> float:
        told = 40 if run.detail or not run.recorder.repeats else run.recorder.repeats
        run.repeated.told, run.repeated.left = run.repeated.told + told, run.repeated.left + 40 - told
        run.repeated.spent += int(told * 1e5)
        return told * 1e-4

    run = Run(monkeypatch, 0.01, cost, detail_every=0)
    run.go(300)
    assert run.recorder.repeats == 1
    assert run.recorder.norms_every == 1


def test_passes_that_come_in_few_iterations_are_not_told_and_counted_in_turn(monkeypatch: Any) -> None:
    def cost(run: Run) -> float:
        count = 400 if run.recorder.iteration % 16 == 0 else 0
        told = count if not run.recorder.repeats else min(count, run.recorder.repeats)
        run.repeated.told, run.repeated.left = run.repeated.told + told, run.repeated.left + count - told
        run.repeated.spent += int(told * 1e5)
        return told * 1e-4 + 1e-5

    run = Run(monkeypatch, 0.02, cost, detail_every=0)
    run.go(2000)
    changes = [row for row in run.rows if row[2] == "repeated passes"]
    assert len(changes) <= 4
    assert run.go(160) <= 0.02


@pytest.mark.torch
def test_a_program_is_recorded_within_its_budget_of_processor_time(monkeypatch: Any) -> None:
    torch = pytest.importorskip("torch")
    # Time on the processor: what else the machine does is not counted, neither here nor there.
    monkeypatch.setattr(budget, "clock", time.thread_time)
    monkeypatch.setattr(entry, "clock", time.thread_time_ns)
    monkeypatch.setattr(modules, "clock", time.thread_time_ns)
    monkeypatch.setattr(budget, "_EARLY", 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with recorded(budget=10, detail_first=2, detail_every=1) as kept:
            # Many small layers: in detail they cost several times of what is allowed.
            net = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(12)))
            optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
            x = torch.randn(160, 256)

            def go(steps: int) -> float:
                began = time.thread_time()
                for _ in range(steps):
                    optimizer.zero_grad()
                    net(x).pow(2).mean().backward()
                    optimizer.step()
                return time.thread_time() - began

            go(80)
            before = kept.spent()
            elapsed = go(80)
            share = (kept.spent() - before) / 1e9 / elapsed
    finally:
        torch.set_num_threads(threads)
    assert kept.table("thinned")
    assert share <= 2 * 0.10
