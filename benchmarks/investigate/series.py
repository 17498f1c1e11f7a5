"""How often the tests of series, of fixes and of events are wrong, and how often they find what is there.

    python benchmarks/investigate/series.py --repeats 400 [--only loss,time,straggler,verify,events,tail]

Every figure is a share of simulated series with fixed seeds; ``tail`` prints the quantiles from which the probability of a
change of level is taken.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy

from preflight.investigate.series import find_in_series
from preflight.investigate.verify.problem import Asked
from preflight.investigate.verify.trials import Trial
from preflight.investigate.verify.verdict import verify
from preflight.vocabulary.log import StepLine, Who

Random = numpy.random.Generator
MEMORIES = (0.0, 0.5, 0.9)


def lines(rank: int | None = None, **columns: Any) -> list[StepLine]:
    count = len(next(iter(columns.values())))
    who = Who(rank=rank)
    return [
        StepLine(file=0, line=i + 1, step=i, values={name: float(one[i]) for name, one in columns.items()}, who=who)
        for i in range(count)
    ]


def noise(count: int, memory: float, draw: Random) -> Any:
    fresh = draw.standard_normal(count) * numpy.sqrt(1 - memory**2)
    found = numpy.empty(count)
    found[0] = draw.standard_normal()
    for i in range(1, count):
        found[i] = memory * found[i - 1] + fresh[i]
    return found


def curve(count: int) -> Any:
    return 2 + 6 * numpy.arange(1, count + 1) ** -0.5


def rates(make: Callable[[Random], list[StepLine]], repeats: int, seed: int) -> str:
    draw = numpy.random.default_rng(seed)
    kinds: Counter[str] = Counter()
    for _ in range(repeats):
        found = {one.kind for one in find_in_series(make(draw))}
        kinds.update(found or {"nothing"})
    return ", ".join(f"{kind} {100 * count / repeats:.2f} %" for kind, count in kinds.most_common())


def healthy(name: str, level: Any, wide: float, memory: float) -> Callable[[Random], list[StepLine]]:
    return lambda draw: lines(**{name: level + wide * noise(len(level), memory, draw)})


def of_loss(repeats: int) -> None:
    for count in (60, 150, 300, 600, 2000):
        for memory in MEMORIES:
            level = rates(healthy("loss", numpy.full(count, 2.0), 0.1, memory), repeats, 1)
            falls = rates(healthy("loss", curve(count), 0.1, memory), repeats, 2)
            print(f"healthy loss, {count} values, memory {memory}: level: {level}; falling: {falls}", flush=True)

    def planted(kind: str, memory: float) -> Callable[[Random], list[StepLine]]:
        def make(draw: Random) -> list[StepLine]:
            loss = curve(2000 if kind == "plateau" else 600)
            if kind == "plateau":
                loss = 2 + 6 * numpy.minimum(numpy.arange(1, 2001), 800) ** -0.5 + 0.02 * noise(2000, memory, draw)
                return lines(loss=loss)
            loss = loss + 0.05 * noise(600, memory, draw)
            if kind == "divergence":
                loss[450:] += numpy.linspace(0, 1.5, 150)
            else:
                loss[300:306] += 2
            return lines(loss=loss)

        return make

    for kind in ("divergence", "spike", "plateau"):
        for memory in MEMORIES:
            print(f"planted {kind}, memory {memory}: {rates(planted(kind, memory), repeats, 3)}", flush=True)


def of_time(repeats: int) -> None:
    for count in (60, 150, 300, 600, 2000):
        for memory in MEMORIES:
            found = rates(healthy("seconds", numpy.ones(count), 0.05, memory), repeats, 4)
            print(f"healthy steps, {count} of them, memory {memory}: {found}", flush=True)

    def slower(before: int, by: float, memory: float) -> Callable[[Random], list[StepLine]]:
        def make(draw: Random) -> list[StepLine]:
            taken = 1 + 0.05 * noise(before + 60, memory, draw)
            taken[before:] *= 1 + by
            return lines(seconds=taken)

        return make

    for before in (60, 100, 200, 1000, 5000):
        print(
            f"5 % longer, {before} steps before and 60 after: {rates(slower(before, 0.05, 0.0), repeats, 5)}",
            flush=True,
        )
    for memory in (0.5, 0.9):
        print(
            f"20 % longer, 200 and 60 steps, memory {memory}: {rates(slower(200, 0.2, memory), repeats, 6)}", flush=True
        )


def of_ranks(repeats: int) -> None:
    def make(ranks: int, slow: float) -> Callable[[Random], list[StepLine]]:
        def steps(draw: Random) -> list[StepLine]:
            return [
                line
                for rank in range(ranks)
                for line in lines(
                    rank=rank, compute_seconds=(1 + 0.05 * noise(200, 0.5, draw)) * (slow if rank == 1 else 1)
                )
            ]

        return steps

    for ranks in (4, 8, 32):
        print(f"{ranks} equal ranks: {rates(make(ranks, 1.0), max(20, repeats // 4), 7)}", flush=True)
        print(f"one of {ranks} ranks 15 % slower: {rates(make(ranks, 1.15), max(20, repeats // 4), 8)}", flush=True)


def of_fixes(repeats: int) -> None:
    draw = random.Random(9)

    def runs(fails: list[bool]) -> list[Trial]:
        return [Trial(name="", outcome="fail" if bad else "pass") for bad in fails]

    for rate in (0.05, 0.1, 0.3):
        for after in (3, 10, 30, 60):
            stated = seen = textbook = 0
            for _ in range(repeats):
                new = [draw.random() < rate for _ in range(after)]
                stated += verify([], runs(new), asked=Asked(rate=rate)).status == "FIXED"
                textbook += not any(new)
                old = [False]
                while not any(old):
                    old = [draw.random() < rate for _ in range(10)]
                seen += verify(runs(old), runs(new)).status == "FIXED"
            print(
                f"a bug of {rate:g} still there, {after} trials: called FIXED {100 * stated / repeats:.1f} % (rate stated), "
                f"{100 * seen / repeats:.1f} % (10 runs before); 'no failure seen' alone: {100 * textbook / repeats:.1f} %",
                flush=True,
            )
    numbers = numpy.random.default_rng(10)
    for memory in (0.0, 0.5, 0.8):
        for slower in (1.0, 1.05):
            found: Counter[str] = Counter()
            for _ in range(max(50, repeats // 4)):
                sides = [
                    [
                        Trial(
                            name="",
                            outcome="pass",
                            series={"seconds": ((1 + 0.1 * noise(400, memory, numbers)) * by).tolist()},
                        )
                    ]
                    for by in (1.0, slower)
                ]
                found[verify(*sides).metrics[0].verdict] += 1
            whole = sum(found.values())
            told = ", ".join(f"{name} {100 * count / whole:.0f} %" for name, count in found.most_common())
            print(f"400 steps a side, cv 0.1, memory {memory}, ratio {slower}: {told}", flush=True)


def of_events(repeats: int) -> None:
    from preflight.investigate.events.analysis import analyse
    from preflight.investigate.events.logger import TrainingEvent
    from preflight.investigate.events.precursors import needed

    week = 7 * 86400.0

    def events(draw: random.Random, failures: int, ratio: float) -> list[TrainingEvent]:
        found = [TrainingEvent(at * 7200.0, "checkpoint", {}, None) for at in range(1, 84)]
        found += [TrainingEvent(at * 10800.0, "eval_start", {}, None) for at in range(1, 56)]
        found += [TrainingEvent(draw.uniform(0, week), "lr_change", {}, None) for _ in range(15)]
        while failures:
            at = draw.uniform(0, week)
            if draw.random() < (1.0 if at % 7200 < 1800 and at >= 7200 else 1 / ratio):
                found.append(TrainingEvent(at, "failure", {}, None))
                failures -= 1
        return found

    draw = random.Random(11)

    def by_ratio_alone(week_of: list[TrainingEvent]) -> bool:
        """The rule of the textbook: failures within ten minutes of an event, windows counted again where they overlap, over two."""
        fails = [one.timestamp for one in week_of if one.event_type == "failure"]
        base = len(fails) / week
        for kind in {one.event_type for one in week_of} - {"failure"}:
            times = [one.timestamp for one in week_of if one.event_type == kind]
            after = sum(at < fail <= at + 600 for at in times for fail in fails)
            if after / (600 * len(times)) / base > 2:
                return True
        return False

    for failures in (5, 10, 20, 40):
        weeks = [events(draw, failures, 1.0) for _ in range(repeats)]
        alone = sum(map(by_ratio_alone, weeks))
        print(f"weeks with {failures} failures: a ratio over 2 alone flags {100 * alone / repeats:.1f} %", flush=True)
        wrong = sum(
            any(one.associated for one in analyse(events(draw, failures, 1.0), seed=i).associations)
            for i in range(repeats)
        )
        print(
            f"weeks with {failures} failures and unrelated events: something flagged in {100 * wrong / repeats:.1f} %",
            flush=True,
        )
    count = needed(0.25, 6)
    hits = sum(
        any(
            one.associated and one.name == "checkpoint"
            for one in analyse(events(draw, count, 5.0), seed=i).associations
        )
        for i in range(repeats)
    )
    print(f"a ratio of 5 with the stated {count} failures: found in {100 * hits / repeats:.1f} %", flush=True)


def of_tail(repeats: int) -> None:
    from preflight.investigate.series.shifts import largest_shift

    draw = numpy.random.default_rng(12)
    for count in (40, 60, 120, 240, 500, 1000):
        for memory in (0.0, 0.3, 0.6, 0.8, 0.9):
            p = sorted(
                found.p for _ in range(repeats * 10) if (found := largest_shift(noise(count, memory, draw))) is not None
            )
            told = ", ".join(
                f"{level:g}: {sum(one <= level for one in p) / len(p):.4f}" for level in (0.05, 0.01, 0.002)
            )
            print(f"change of level, {count} values, memory {memory}: share of p below {told}", flush=True)


def of_speed(repeats: int) -> None:
    draw = numpy.random.default_rng(13)
    count = 1_000_000
    steps = lines(
        loss=2 + 6 * numpy.arange(1, count + 1) ** -0.3 + 0.1 * draw.standard_normal(count),
        seconds=1 + 0.05 * draw.standard_normal(count),
    )
    began = time.perf_counter()
    found = find_in_series(steps)
    print(f"{count:,} step lines: {time.perf_counter() - began:.1f} s, {[one.kind for one in found]}")


PARTS = {
    "loss": of_loss,
    "time": of_time,
    "straggler": of_ranks,
    "verify": of_fixes,
    "events": of_events,
    "tail": of_tail,
    "speed": of_speed,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    for part in given.only.split(","):
        PARTS[part](given.repeats)
