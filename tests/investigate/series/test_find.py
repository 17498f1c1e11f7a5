"""What the steps of a run show: how often it is wrong on healthy noise, how often planted faults are found."""

from __future__ import annotations

import msgspec
import numpy
import pytest

from preflight.investigate.series import Mark, find_in_series
from preflight.vocabulary.log import LogFile, StepLine, Who

from .made import Random, curve, lines, noise, share

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_healthy_noise_shows_nothing(memory: float) -> None:
    assert share(lambda random: lines(loss=2 + 0.1 * noise(300, memory, random)), None, 70, 1) <= 1 / 70
    assert share(lambda random: lines(loss=curve(300) + 0.1 * noise(300, memory, random)), None, 70, 2) <= 1 / 70
    assert share(lambda random: lines(seconds=1 + 0.05 * noise(300, memory, random)), None, 70, 3) <= 1 / 70


@pytest.mark.parametrize(("before", "least"), [(60, 0.85), (200, 0.95)])
def test_steps_that_take_5_percent_longer_are_found_within_60_steps(before: int, least: float) -> None:
    def make(random: Random) -> list[StepLine]:
        taken = 1 + 0.05 * noise(before + 60, 0.0, random)
        taken[before:] *= 1.05
        return lines(seconds=taken)

    assert share(make, "slowdown", 40, 4) >= least


def test_a_slow_stretch_ends_where_it_ends() -> None:
    random = numpy.random.default_rng(11)
    taken = 1 + 0.05 * noise(600, 0.0, random)
    taken[200:300] *= 1.4
    (found,) = find_in_series(lines(seconds=taken), [LogFile(index=0, path="run.log", kind="text")])
    assert found.kind == "slowdown"
    assert found.values["lasts"] is False
    assert found.first_step is not None
    assert found.last_step is not None
    assert abs(found.first_step - 200) <= 3
    assert abs(found.last_step - 299) <= 3
    assert found.quote is not None
    assert found.quote.path == "run.log"


def test_the_phase_that_slowed_is_named_with_its_rank() -> None:
    random = numpy.random.default_rng(12)
    steps = []
    for rank in range(4):
        own = 0.6 + 0.02 * random.standard_normal(300)
        data = 0.05 + 0.005 * random.standard_normal(300)
        waits = 0.1 + 0.01 * random.standard_normal(300)
        if rank == 2:
            data[200:] += 0.5
        else:
            waits[200:] += 0.5
        steps += lines(
            rank=rank, seconds=own + data + waits, data_seconds=data, compute_seconds=own, communication_seconds=waits
        )
    found = [one for one in find_in_series(steps) if one.kind == "slowdown" and not one.ranks]
    assert [one.phase for one in found] == ["data"]
    assert "rank 2 alone" in found[0].text


def test_a_rank_that_is_slower_than_the_others_is_a_straggler() -> None:
    def make(random: Random, slow: float) -> list[StepLine]:
        steps = []
        for rank in range(8):
            own = (1.0 + 0.05 * noise(200, 0.5, random)) * (slow if rank == 5 else 1.0)
            steps += lines(rank=rank, compute_seconds=own)
        return steps

    assert share(lambda random: make(random, 1.15), "straggler", 10, 13) >= 0.9
    assert share(lambda random: make(random, 1.0), None, 20, 14) == 0


@pytest.mark.parametrize(("count", "slow", "told"), [(12, 3.0, True), (12, 1.5, False), (6, 3.0, False)])
def test_few_steps_tell_a_rank_that_takes_a_multiple(count: int, slow: float, told: bool) -> None:
    random = numpy.random.default_rng(16)
    steps = []
    for rank in range(4):
        own = 0.2 + 0.02 * noise(count, 0.3, random)
        own[count // 2 :] *= slow if rank == 2 else 1.0
        steps += lines(rank=rank, compute_seconds=own, seconds=[0.7] * count)
    found = [one for one in find_in_series(steps) if one.kind == "straggler"]
    assert [one.ranks for one in found] == ([(2,)] if told else [])


def test_a_multiple_of_next_to_nothing_is_none() -> None:
    steps = []
    for rank in range(4):
        steps += lines(rank=rank, data_seconds=[0.004 if rank == 2 else 0.001] * 12, seconds=[0.7] * 12)
    assert not [one for one in find_in_series(steps) if one.kind == "straggler"]


def test_long_steps_at_regular_distances_are_told_with_their_period() -> None:
    random = numpy.random.default_rng(15)
    taken = 1 + 0.05 * noise(1000, 0.3, random)
    taken[100::100] += 8
    found = {one.kind: one for one in find_in_series(lines(seconds=taken))}
    assert found["periodic"].values["every"] == 100
    taken = 1 + 0.05 * noise(1000, 0.3, random)
    taken[random.choice(1000, 9, replace=False)] += 8
    assert not [one for one in find_in_series(lines(seconds=taken)) if one.kind == "periodic"]


def test_a_value_that_is_no_number_is_told_with_its_rank() -> None:
    steps = [*lines(rank=0, loss=[2.0] * 30 + [1.9]), *lines(rank=1, loss=[2.0] * 20 + [float("nan")] * 11)]
    found = {one.kind: one for one in find_in_series(steps)}
    assert found["nonfinite"].ranks == (1,)
    assert found["nonfinite"].first_step == 20
    assert found["nonfinite"].values["recovered"] is False


def test_values_that_are_no_number_again_and_again_were_not_mended() -> None:
    nan = float("nan")
    (often,) = find_in_series(lines(loss=[1.6, 1.0, nan, 1.1, nan, 1.0, nan, 0.99]))
    (once,) = find_in_series(lines(loss=[1.6, 1.0, nan, 1.1, 1.0, 1.0, 1.0, 0.99]))
    assert (often.values["recovered"], once.values["recovered"]) == (False, True)


def test_a_skipped_step_of_mixed_precision_is_no_finding() -> None:
    norms = numpy.ones(100)
    norms[[10, 50]] = numpy.inf
    scale = numpy.where(numpy.arange(100) < 50, 65536.0, 32768.0)
    assert find_in_series(lines(grad_norm=norms, loss_scale=scale)) == ()


def test_a_loss_scale_that_falls_without_end_is_a_collapse() -> None:
    scale = [65536.0] * 40 + [65536.0 / 2**i for i in range(1, 20)]
    (found,) = find_in_series(lines(loss_scale=scale))
    assert found.kind == "scale-collapse"
    assert found.first_step == 39
    # The search for the first scale is how every run begins.
    assert find_in_series(lines(loss_scale=[2.0**32 / 2**i for i in range(16)] + [65536.0] * 50)) == ()


def test_a_loss_scale_that_only_ever_falls_is_a_collapse() -> None:
    falls = [65536.0 / 2 ** (i // 30) for i in range(330)]
    (found,) = find_in_series(lines(loss_scale=falls))
    assert found.kind == "scale-collapse"
    assert "without a doubling" in found.text
    # It fell for a while, then it held: that is how a scale is found where overflows are seldom.
    assert find_in_series(lines(loss_scale=falls[:250] + [256.0] * 200)) == ()
    # A few halvings, far apart, in a run that ends before the scale would be doubled.
    assert find_in_series(lines(loss_scale=[65536.0 / 2 ** (i // 100) for i in range(400)])) == ()


def test_steps_counted_anew_in_each_epoch_are_laid_end_to_end() -> None:
    random = numpy.random.default_rng(31)
    taken = 1 + 0.05 * noise(600, 0.0, random)
    taken[330:] *= 1.3
    steps = [
        StepLine(file=0, line=i + 1, step=i % 100, values={"seconds": float(one), "epoch": float(i // 100)})
        for i, one in enumerate(taken)
    ]
    (found,) = find_in_series(steps)
    assert found.kind == "slowdown"
    assert found.first_step is not None
    assert abs(found.first_step - 30) <= 3
    assert "(line 3" in found.text
    # A run that was started again and again gets each time as far as it gets.
    again = [*range(100), *range(40, 160), *range(150, 220)]
    (jumped,) = find_in_series(lines_at(again, loss=[9.0 if i == 250 else 2.0 + 0.01 * (i % 7) for i in range(290)]))
    assert jumped.first_step == again[250]


def lines_at(steps: list[int], **columns: list[float]) -> list[StepLine]:
    return [
        StepLine(file=0, line=i + 1, step=step, values={name: column[i] for name, column in columns.items()})
        for i, step in enumerate(steps)
    ]


def test_an_average_of_all_steps_so_far_is_undone() -> None:
    random = numpy.random.default_rng(32)
    taken = 1 + 0.02 * noise(900, 0.0, random)
    taken[600:] += 1
    average = numpy.round(numpy.cumsum(taken) / numpy.arange(1, 901), 4)
    (found,) = find_in_series(lines(seconds=average))
    assert found.kind == "slowdown"
    assert found.first_step is not None
    assert abs(found.first_step - 600) <= 12
    ratio = found.values["ratio"]
    assert isinstance(ratio, float)
    assert abs(ratio - 2) < 0.05
    healthy = numpy.round(numpy.cumsum(taken[:600]) / numpy.arange(1, 601), 4)
    assert find_in_series(lines(seconds=healthy)) == ()


def test_an_average_with_few_digits_tells_nothing_more() -> None:
    climbs = [round(0.1 + 0.1 * (i // 20), 1) for i in range(44)]
    assert [one.kind for one in find_in_series(lines(seconds=climbs))] in ([], ["slowdown"])


def test_bars_of_other_work_are_no_slow_steps() -> None:
    random = numpy.random.default_rng(33)
    steps = lines_at(list(range(200)), seconds=[3e-5 + 1e-6 * random.random() for _ in range(200)])
    steps += lines_at(list(range(300)), seconds=[1.2 + 0.05 * random.random() for _ in range(300)])
    assert find_in_series(steps) == ()


def test_longer_steps_that_do_more_are_no_slowdown() -> None:
    random = numpy.random.default_rng(34)
    taken = 1 + 0.02 * noise(400, 0.0, random)
    taken[200:] *= 1.5
    tokens = numpy.where(numpy.arange(400) < 200, 4096, 6144)
    assert find_in_series(lines(seconds=taken, tokens_per_second=tokens / taken)) == ()
    assert find_in_series(lines(seconds=taken, tokens_per_second=4096 / taken))[0].kind == "slowdown"


def test_what_is_done_before_the_long_steps_names_their_phase() -> None:
    random = numpy.random.default_rng(35)
    taken = 1 + 0.03 * noise(600, 0.0, random)
    taken[50::50] += 4
    steps = lines(seconds=taken)
    steps = [msgspec.structs.replace(one, line=2 * one.line) for one in steps]
    saved = [Mark(0, 2 * i + 1, "checkpoint") for i in range(50, 600, 50)]
    (found,) = find_in_series(steps, marks=saved)
    assert (found.kind, found.phase) == ("periodic", "checkpoint")
    (untold,) = find_in_series(steps)
    assert (untold.kind, untold.phase) == ("periodic", None)
    assert "does not tell which phase" in untold.text
    # Lines of an evaluation between the steps say the same.
    evaluated = [StepLine(file=0, line=2 * i + 1, step=None, values={"val_loss": 2.0}) for i in range(50, 600, 50)]
    (found,) = [one for one in find_in_series(sorted([*steps, *evaluated], key=lambda one: one.line)) if one.phase]
    assert found.phase == "evaluation"


def test_steps_that_no_longer_come_are_told_by_the_last_sign_of_life() -> None:
    steps = lines(seconds_apart=2.0, other=range(50))
    (found,) = find_in_series(steps, until=1000.0 + 98 + 1800)
    assert found.kind == "stopped"
    assert found.last_step == 49
    assert find_in_series(steps, until=1000.0 + 98 + 10) == ()


def test_a_rank_that_ends_before_the_others_is_told() -> None:
    steps = [one for rank in range(4) for one in lines(rank=rank, other=range(20 if rank == 3 else 50))]
    (found,) = find_in_series(steps)
    assert (found.kind, found.ranks, found.last_step) == ("stopped", (3,), 19)


def test_no_steps_and_one_step_show_nothing() -> None:
    assert find_in_series([]) == ()
    assert find_in_series(lines(loss=[1.0])) == ()


def test_numbers_beyond_all_measure_break_nothing() -> None:
    odd = [0.0, -0.0, -5.0, 1e300, -1e300, 1e-320, float("inf"), float("-inf"), float("nan"), 2.0]
    draw = numpy.random.default_rng(21)
    names = ("loss", "seconds", "grad_norm", "loss_scale", "data_seconds", "compute_seconds", "communication_seconds")
    for _ in range(40):
        steps = [
            StepLine(
                file=rank,
                line=i,
                step=int(draw.integers(0, 10**12)) if i % 7 == 0 else i,
                values={name: float(draw.choice(odd)) for name in names if draw.random() < 0.8},
                who=Who(rank=rank),
                time=float(draw.choice([i, 5.0, 1e9 + i])),
            )
            for rank in range(3)
            for i in range(60)
        ]
        find_in_series(steps, until=1e9)


def test_a_bar_that_is_drawn_once_more_when_it_is_full_is_no_stop() -> None:
    bars = [step for _ in range(8) for step in range(5)]
    assert not [one for one in find_in_series(lines_at([*bars, *[4] * 40], other=[1.0] * 80)) if one.kind == "stopped"]
    stays = [*range(40), *[40] * 40]
    assert [one.kind for one in find_in_series(lines_at(stays, other=[1.0] * 80))] == ["stopped"]


def rounded(slow: float | None, random: Random) -> list[StepLine]:
    """Steps of four ranks whose times for data are printed in thousandths, one of them at another time if it is given."""
    steps: list[StepLine] = []
    for rank in range(4):
        data = 0.0006 * numpy.exp(0.5 * noise(60, 0.3, random))
        if slow is not None and rank == 2:
            data = slow * numpy.exp(0.05 * noise(60, 0.3, random))
        steps += lines(rank=rank, data_seconds=data.round(3), seconds=(0.3 + 0.02 * noise(60, 0.3, random)).round(3))
    return steps


def test_a_rank_that_reads_slowly_is_told_where_the_others_print_nought() -> None:
    assert share(lambda random: rounded(0.25, random), "straggler", 20, 41) == 1.0


def test_ranks_whose_short_times_differ_by_their_rounding_are_alike() -> None:
    assert share(lambda random: rounded(None, random), "straggler", 200, 42) <= 0.01
    assert share(lambda random: rounded(0.0014, random), "straggler", 50, 43) == 0.0
