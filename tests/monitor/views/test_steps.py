"""Steps of optimizers: what each knows of the one before, and how many were made before a window."""

from preflight.monitor.mini import Mini
from preflight.monitor.views.steps import steps_of


def test_a_step_knows_what_the_one_before_of_its_optimizer_left() -> None:
    mini = Mini({"model.weight": {}, "other.weight": {"optimizer": 1}})
    first = mini.window("backward", "step optimizer0:SGD", ("after", {"model.weight": 1.0}))
    other = mini.window("backward", "step optimizer1:Adam")
    second = mini.window("backward", ("before", {"model.weight": 1.0}), "step optimizer0:SGD")
    third = mini.window("backward", "step optimizer0:SGD")
    left = [step.left for window in (first, other, second, third) for step in steps_of(window)]
    assert left == [None, None, first.states[0], None]  # the second step told of nothing after it


def test_the_steps_of_all_optimizers_are_counted_up_to_a_window() -> None:
    mini = Mini({"model.weight": {}})
    rows = ["step optimizer0:SGD", "step optimizer1:Adam"]
    windows = [mini.window(*rows), mini.window("backward"), mini.window(*rows[:1]), mini.window()]
    for window in windows:
        steps_of(window)
    assert [window.made for window in windows] == [0, 2, 2, 3]


def test_the_states_around_a_step_are_found_behind_many_of_steps_before() -> None:
    """Also those that came before the first step of an optimizer, however many steps another one made since."""
    mini = Mini({"model.weight": {}, "late.weight": {"optimizer": 1}})
    early = ("before", {"late.weight": 2.0})
    mini_windows = [mini.window(early)]
    around = ("backward", ("gradients", {"model.weight": 0.5}), "step optimizer0:SGD", ("after", {"model.weight": 1.0}))
    mini_windows += [mini.window(*around) for _ in range(3)]
    mini_windows.append(mini.window(*around, "step optimizer1:Adam"))
    found = [step for window in mini_windows for step in steps_of(window)]
    for step, window in zip(found[:4], mini_windows[1:], strict=True):
        assert step.gradients is window.states[0]
        assert step.after is window.states[1]
        assert step.before is None
    assert found[4].before is mini_windows[0].states[0]
