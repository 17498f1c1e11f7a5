"""Which modules took part: the number of the last call of each, whichever way the passes of a window are told."""

from preflight.monitor.mini import Mini
from preflight.monitor.views.flow import flow_of


def passed(name: str, *parts: str) -> tuple[str, dict[str, object]]:
    return f"forward {name}", {"args": {"training": True}, "inside": [f"module {part}" for part in parts]}


def test_the_last_call_of_a_module_is_known_over_several_passes() -> None:
    mini = Mini()
    window = mini.window(passed("model", "model.a", "model.b"), passed("other", "model.b"), passed("model", "model.a"))
    last = {call.object: call.q for call in window.calls}  # calls are in the order in which they began
    assert flow_of(window).called == last


def test_a_module_keeps_its_call_where_it_is_not_seen_again() -> None:
    mini = Mini()
    first = mini.window(passed("model", "model.a", "model.b"))
    second = mini.window(passed("model", "model.b"))
    numbers = {call.object: call.q for window in (first, second) for call in window.calls}
    flow_of(first)
    assert flow_of(second).called == numbers
    unseen = mini.window(passed("model"))
    assert flow_of(unseen).called == numbers  # modules are not told of in every iteration
    assert flow_of(unseen).rested("model", unseen.calls[0].q) is False


def test_a_call_that_is_told_late_does_not_replace_a_later_one() -> None:
    mini = Mini()
    early, late = mini.window(passed("model", "model.a")), mini.window(passed("model", "model.a"))
    flow_of(late)
    assert flow_of(early).called == {call.object: call.q for call in late.calls}
