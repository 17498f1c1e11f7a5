"""Settings of a program: what was learnt of one run says nothing against another with other ones."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.window import Window

from .test_habits import DIVIDED, NLL, STEP, TWICE, broken, gradients, passes


def test_over_how_many_batches_gradients_are_accumulated_is_a_setting() -> None:
    def run(times: int) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window(*[("backward", {"place": "train.py:7"})] * times, STEP) for _ in range(8)]

    assert not broken("calls-per-step", run(4), run(6))
    assert not broken("calls-per-step", run(4), run(1))
    assert not broken("calls-per-step", run(1), run(2))


def test_gradients_that_are_accumulated_are_cleared_before_the_first_pass() -> None:
    def run(*calls: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window(*calls, STEP) for _ in range(8)]

    clear = "zero_grad optimizer0:SGD"
    assert not broken("calls-in-order", run(clear, "backward"), run(clear, *["backward"] * 4))
    assert broken("calls-in-order", run(clear, "backward"), run("backward", clear))


def test_gradients_that_are_cleared_again_and_again_are_no_setting() -> None:
    def run(times: int) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window(*["zero_grad optimizer0:SGD", "backward"] * times, STEP) for _ in range(8)]

    assert broken("calls-per-step", run(1), run(4)) == ["0: several times"]


def test_how_often_a_schedule_advances_for_several_ranks_is_a_setting() -> None:
    def run(times: int) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window("backward", STEP, *["scheduler.step"] * times) for _ in range(8)]

    assert not broken("calls-per-step", run(1), run(4))
    assert broken("calls-per-step", run(1), run(0)) == ["1: never"]
    assert not broken("calls-periodic", run(1), run(4))


@pytest.mark.parametrize("name", ["calls-per-step", "step-contains", "calls-periodic"])
def test_a_schedule_that_goes_by_epochs_may_have_longer_ones(name: str) -> None:
    def run(length: int) -> list[Window]:
        mini = Mini({"model.weight": {}})
        first = ["scheduler.step", "loop loader0"]
        return [mini.window(*first * (not number % length), "backward", STEP) for number in range(36)]

    assert not broken(name, run(1), run(4)), "of epochs of one batch each"
    assert not broken(name, run(4), run(1))


@pytest.mark.parametrize("name", ["calls-per-step", "step-contains"])
def test_no_schedule_is_missing_before_the_first_step(name: str) -> None:
    def run(*first: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        rows = ["backward", STEP, "scheduler.step"]
        return [mini.window(*([] if number else first), *rows) for number in range(8)]

    assert not broken(name, run("loop loader0"), run()), "of a loader that cannot be seen"


@pytest.mark.parametrize("name", ["calls-per-step", "step-contains"])
def test_without_mixed_precision_no_scaler_is_missing(name: str) -> None:
    def run(*calls: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window("backward", *calls[:1], STEP, *calls[1:]) for _ in range(8)]

    scaled = "scaler.step optimizer0:SGD"
    assert not broken(name, run(scaled, "scaler.update"), run())
    assert broken(name, run(scaled, "scaler.update"), run(scaled))


def fed(*loaders: tuple[str, str, bool], world: int = 1) -> list[Window]:
    """A run that goes through loaders, with their orders, one after the other, and trains from some of them."""
    mini = Mini({"model.weight": {}}, world=world)
    windows = []
    for name, order, trained in loaders:
        made: list[Any] = [(f"loader.new {name}", {"args": {"order": order}})]
        for number in range(6):
            batch = ("batch", {"loader": name, "bits": [number]})
            windows.append(mini.window(*made, batch, "forward model", *["backward", STEP] * trained))
            made = []
    return windows


def test_a_loader_that_shuffled_is_known_again_though_an_evaluation_comes_first() -> None:
    train, check = ("random", True), ("sequential", False)
    good = fed(("loader0", *check), ("loader1", *train))
    assert not broken("loaders-shuffle", good, fed(("loader0", *train), ("loader1", *check)))
    assert broken("loaders-shuffle", good, fed(("loader0", "sequential", True), ("loader1", *check)))


def test_the_order_of_one_process_is_not_asked_of_several() -> None:
    one, other = ("loader0", "random", True), ("loader0", "sequential", True)
    assert broken("loaders-shuffle", fed(one), fed(other))
    assert not broken("loaders-shuffle", fed(one), fed(other, world=2))


def inputs(*bits: int, samples: int = 64) -> list[Window]:
    """A run whose model is given these inputs, as far as they are looked at."""
    mini = Mini({"model.weight": {}})
    made: list[Any] = [("loader.new loader0", {"args": {"samples": samples, "batch_size": 16}})]
    windows = []
    for one in bits:
        batches = [("batch", {"loader": loader, "bits": [one]}) for loader in ("loader0", "forward:model")]
        windows.append(mini.window(*made, *batches, "forward model", "backward", STEP))
        made = []
    return windows


def test_inputs_that_are_the_same_each_time_are_no_matter_of_settings() -> None:
    good = inputs(*range(8))
    assert broken("inputs-alike", good, inputs(*[1] * 8)) == ["4: is the same in each step"]
    assert not broken("inputs-alike", good, inputs(0, 1, 2, 3, 4, 0, 0, 0)), "looks that lie whole epochs apart"
    assert not broken("inputs-alike", good, inputs(*[0] * 4, *[1] * 4)), "four steps with each batch"
    assert not broken("inputs-alike", good, inputs(*[1] * 8, samples=16)), "a loader with one batch"


RESUMED = ("load_state_dict optimizer0:SGD", {"args": {"state": 4}})


def resumed(windows: list[Window], by: tuple[str, dict[str, Any]] = RESUMED) -> list[Window]:
    """The same run, which begins with the state of an optimizer."""
    run = Mini({})
    run.run = windows[0].run
    return [run.window(by), *windows]


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [
        ("losses-end-alike", lambda: passes(NLL), lambda: passes(TWICE)),
        (
            "parameters-alike",
            lambda: gradients(*[{"model.body": None, "model.head": 0.5}] * 9),
            lambda: gradients(*[{"model.body": 0.5, "model.head": 0.5}] * 9),
        ),
        ("models-take-part", lambda: calling("forward warmup"), lambda: calling("forward model")),
        ("passes-alike", lambda: calling(("forward critic", {"context": "nograd"})), lambda: calling("forward critic")),
    ],
)
def test_the_first_steps_of_a_run_that_goes_on_are_not_those_of_a_training(name: str, first: Any, later: Any) -> None:
    assert broken(name, first(), later())
    assert not broken(name, first(), resumed(later()))
    empty = ("load_state_dict optimizer0:SGD", {"args": {"state": 0}})
    assert broken(name, first(), resumed(later(), empty)), "of a state in which nothing is"


def calling(call: Any) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("forward other", call, "backward", STEP) for _ in range(12)]


def test_what_is_left_over_of_an_epoch_is_no_run_without_accumulation() -> None:
    mini = Mini({"model.weight": {}})
    told = ("backward", {"args": {"tail": DIVIDED}})
    rest = [mini.window(*[told] * times, STEP) for times in (4, 4, 1, 4, 4, 1)]
    assert not broken("losses-end-alike", passes(NLL), rest)


def test_a_loss_over_all_processes_is_not_compared_with_that_of_one() -> None:
    several = passes(TWICE)
    several[0].run.world = 2
    assert not broken("losses-end-alike", passes(NLL), several)


def epochs(length: int, every: int, tested: int = 0, count: int = 4) -> list[Window]:
    """A run whose schedule advances after every so many steps, and which evaluates after some."""
    mini, windows = Mini({"model.weight": {}}), []
    for number in range(length * count):
        rows = ["fetch loader0", "backward", STEP]
        if not number % length:
            rows.insert(0, "loop loader0")
        if every and not (number + 1) % every:
            rows.append("scheduler.step")
        if tested and not (number + 1) % tested:
            rows += ["loop loader1", "fetch loader1", "forward model"]
        windows.append(mini.window(*rows))
    return windows


def test_a_schedule_may_advance_before_or_after_the_evaluations_of_an_epoch() -> None:
    good = epochs(6, every=6, tested=6)
    assert not broken("schedules-advance", good, epochs(12, every=12, tested=3))
    assert broken("schedules-advance", good, epochs(12, every=0, tested=3)) == ["12: has not advanced"]


def test_a_schedule_that_goes_by_some_steps_may_have_shorter_epochs() -> None:
    assert not broken("schedules-advance", epochs(12, every=5), epochs(3, every=5, count=2))
    assert broken("schedules-advance", epochs(12, every=1), epochs(3, every=0)) == ["3: has not advanced"]
    assert not broken("schedules-advance", epochs(12, every=1), resumed(epochs(3, every=0)))


def scaled(*sizes: float, evaluated: float) -> list[Window]:
    """A run whose model is given inputs of these sizes in training, and of one in evaluation."""
    mini, windows = Mini({"model.weight": {}}), []
    judged = ("forward model", {"args": {"training": False}, "context": "nograd"})
    for size in sizes:
        window = mini.window(("forward model", {"args": {"training": True}}), "backward", STEP, judged)
        told = {"object": "model", "position": "in0", "shape": (16, 16), "requires_grad": False}
        rows = zip(window.named("forward"), (size, evaluated), strict=True)
        window.tensors = mini.window(
            *(("tensor", {**told, "norm": 16 * one, "call": call.q}) for call, one in rows)
        ).tensors
        windows.append(window)
    return windows


def test_small_batches_do_not_tell_the_scale_of_the_data() -> None:
    good = scaled(*[1.0] * 8, evaluated=1.0)
    assert not broken("inputs-alike", good, scaled(0.1, 0.9, 0.2, *[1.0] * 5, evaluated=1.0))
    assert not broken("inputs-alike", good, scaled(0.7, 1.0, 1.3, *[1.0] * 5, evaluated=0.5))
    assert broken("inputs-alike", good, scaled(*[0.1] * 8, evaluated=0.1)) == ["2: about 0.12"]
    assert broken("inputs-alike", good, scaled(*[1.0] * 8, evaluated=0.5)) == ["2: about 0.5"]


def test_a_parameter_of_which_nothing_is_known_is_followed_like_any_other() -> None:
    def run(*bits: int) -> list[Window]:
        mini = Mini({"model.weight": {}, "copy.weight": {"optimizer": -1}})
        del mini.run.variables[1]
        return [mini.window(("before", {"copy.weight": (1.0, one)}, {"optimizer": -1}), STEP) for one in bits]

    assert broken("parameters-alike", run(*range(14)), run(*[1] * 14)) == ["3: rests between steps"]
