"""Gradients of a network that are thrown away are no fault where nobody meant them."""

from preflight.monitor.mini import Mini
from preflight.monitor.relations.passes_have_an_end import PassesHaveAnEnd
from preflight.monitor.window import Window


def window(mini: Mini, *rows: object) -> Window:
    """The iteration, with models whose inputs take no gradient."""
    made = mini.window(*rows)
    for call in made.named("forward"):
        row = ("tensor", {"object": call.object, "position": "in0", "requires_grad": False, "call": call.q})
        made.tensors += [one._replace(i=made.iteration) for one in mini.window(row).tensors]
    return made


def broken(windows: list[Window]) -> int:
    relation = PassesHaveAnEnd()
    return sum(not example.holds for one in windows for example in relation.see(one))


def beside(first: str, second: str) -> list[Window]:
    """Two models that are looked at with gradients before each step of either; few norms of the steps are told."""
    mini = Mini({"one.weight": {}, "other.weight": {"optimizer": 1}})
    windows = []
    for number in range(6):
        thrown = [("thrown", {"other.weight": 0.9 + number}, {"optimizer": 1})] if number else []
        told = [("gradients", {"other.weight": 1.9 + number}, {"optimizer": 1})] if number < 2 else []
        own = ("zero_grad optimizer0:Adam", "backward", "step optimizer0:Adam")
        others = ("zero_grad optimizer1:Adam", "backward", *told, "step optimizer1:Adam")
        windows.append(window(mini, f"forward {first}", f"forward {second}", *own, "forward other", *thrown, *others))
    return windows


def test_what_a_step_left_is_not_taken_for_made_since_where_its_gradients_were_not_told() -> None:
    assert not broken(beside("one", "other"))
    assert not broken(beside("other", "one"))


def test_a_network_whose_own_loss_runs_on_into_what_feeds_it_is_wasteful_and_right() -> None:
    mini = Mini({"judge.weight": {}, "maker.weight": {"optimizer": 1}})
    windows = []
    for number in range(4):
        step = ("zero_grad optimizer0:Adam", "backward", "step optimizer0:Adam")
        thrown = ("thrown", {"maker.weight": 0.9 + number}, {"optimizer": 1})
        windows.append(window(mini, "forward maker", "forward judge", *step, thrown, "zero_grad optimizer1:Adam"))
    assert not broken(windows)


def shared(told: bool) -> list[Window]:
    """Two models in turn, and an optimizer of both that comes last; gradients of its step are told at first or never."""
    mini = Mini({"judge.weight": {}, "maker.weight": {"optimizer": 1}})
    windows = []
    for number in range(6):
        left = [("thrown", {"maker.weight": 0.9 + number}, {"optimizer": 1})] if number else []
        both = (
            [("gradients", {"maker.weight": 0.4, "judge.weight": 0.6}, {"optimizer": 2})] if told and number < 2 else []
        )
        makes = ("zero_grad optimizer1:Adam", "forward maker", "forward judge", "backward")
        own = ("gradients", {"maker.weight": 0.5 + number}, {"optimizer": 1})
        judges = ("zero_grad optimizer0:Adam", "forward judge", "backward", "step optimizer0:Adam")
        last = ("zero_grad optimizer2:Adam", "forward maker", "forward judge", "backward", *both)
        windows.append(window(mini, *left, *makes, own, "step optimizer1:Adam", *judges, *last, "step optimizer2:Adam"))
    return windows


def test_an_optimizer_of_networks_that_others_have_too_uses_what_its_pass_left() -> None:
    assert not broken(shared(told=True))
    assert not broken(shared(told=False))


def test_a_network_that_feeds_another_one_and_is_called_once_more_for_the_same_loss_is_reached_through_it() -> None:
    mini = Mini({"judge.weight": {}, "maker.weight": {"optimizer": 1}})
    windows = []
    for number in range(4):
        thrown = [("thrown", {"maker.weight": 0.9 + number}, {"optimizer": 1})] if number else []
        cleared = (*thrown, "zero_grad optimizer0:Adam", "zero_grad optimizer1:Adam")
        passes = ("forward maker", "forward judge", "forward maker")
        made = mini.window(*passes, *cleared, "backward", "step optimizer0:Adam")
        for call in made.named("forward"):
            row = {"object": call.object, "position": "in0", "requires_grad": call.object == "judge", "call": call.q}
            made.tensors += [one._replace(i=made.iteration) for one in mini.window(("tensor", row)).tensors]
        windows.append(made)
    assert not broken(windows)
