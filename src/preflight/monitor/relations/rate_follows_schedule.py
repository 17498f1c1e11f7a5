"""The rate of a step is the one that was left for it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window

_CLOSE = 1e-9
_ENDED = 0.01


class RateFollowsSchedule(Relation):
    """After its state was loaded, an optimizer steps with the learning rate that the state holds.

    Loading the state of an optimizer brings back the rate at which the run stood. A scheduler that is made afterwards,
    or one that was not restored, puts the rate of its own beginning in its place: the rate jumps.
    Judged at the first step after the load, where no scheduler has advanced in between. Another rate than the one that
    the optimizer was made with is told of only when a scheduler advances it: without one, the program has set it.
    A state whose rate has come down to nothing is of a schedule that was at its end: what follows is another phase.
    """

    name = "rate-follows-schedule"
    needs = frozenset({"step", "load_state_dict", "scalar"})
    wakes = frozenset({"optimizer.new", "load_state_dict", "scheduler.step", "step"})
    repeats = 2
    looks = frozenset({"step", "scheduler.step"})
    reads = frozenset({"optimizer.new", "load_state_dict"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "a scheduler was made after the optimizer was restored, or was itself not restored, and set its first rate"
    advice = (
        "make the scheduler before the state of the optimizer is loaded, and load the scheduler's state as well as the "
        "optimizer's"
    )

    def __init__(self) -> None:
        self._loaded: dict[int, tuple[Call, list[float]]] = {}
        self._made: dict[int, list[float]] = {}  # by optimizer: the rates that it was made with
        self._suspected: dict[int, Example] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("optimizer.new"):
            groups = (call.args or {}).get("groups") or []
            self._made[optimizer_number(call)] = [one.get("lr") for one in groups]
        if not self._loaded and not self._suspected and not window.named("load_state_dict"):
            return
        for call in window.plain:
            number = optimizer_number(call)
            if call.name == "load_state_dict" and number >= 0:
                told = call.args or {}
                rates = [one for one in told.get("rates", ()) if isinstance(one, (int, float))]
                if told.get("state") and rates and len(rates) == len(told["rates"]):
                    self._loaded[number] = call, rates
            elif call.name == "scheduler.step":
                named = (call.args or {}).get("optimizer") or (call.result or {}).get("optimizer") or ""
                number = optimizer_number(call._replace(object=named))
                self._loaded.pop(number, None)
                if number in self._suspected:
                    yield self._suspected.pop(number)
            elif call.name == "step" and number in self._loaded:
                for example in self._judge(window, call, *self._loaded.pop(number)):
                    if example.holds or set(example.seen) <= set(self._made.get(number, example.seen)):
                        yield example
                    else:
                        self._suspected[number] = example

    @staticmethod
    def _judge(window: Window, call: Call, load: Call, rates: list[float]) -> Iterator[Example]:
        seen: dict[int, float] = {}
        for one in window.numbers:
            if (
                one.name == "lr"
                and one.object.startswith(call.object + ".")
                and one.q < call.q
                and one.value is not None
            ):
                seen[int(one.object.rsplit(".", 1)[1])] = one.value
        pairs = [(rates[group], rate) for group, rate in sorted(seen.items()) if group < len(rates)]
        if not pairs:
            return
        ended = max(rates) <= _ENDED * max(rate for _, rate in pairs)
        wrong = [pair for pair in pairs if abs(pair[0] - pair[1]) > _CLOSE + 1e-6 * abs(pair[0]) and not ended]
        yield Example(
            (),
            not wrong,
            {"optimizer": call.object.split(":")[-1]},
            variables=(call.object,) if wrong else (),
            expected=[one for one, _ in wrong] or None,
            seen=[other for _, other in wrong] or None,
            call=call,
            detail=f"The state that was loaded holds the rate {wrong[0][0]:g}; the step after it takes {wrong[0][1]:g}"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _resumed(0.025)
        yield _resumed(0.2, loaded=0.0)
        yield [*_resumed(0.025, 0.1), *_resumed(0.2, 0.1)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(0.2)
        yield _resumed(0.1, 0.1)
        yield _resumed(0.2, 0.1, advanced=True)


def _resumed(rate: float, made: float | None = None, advanced: bool = False, loaded: float = 0.025) -> list[Window]:
    mini = Mini({"model.weight": {}})
    new = () if made is None else (("optimizer.new optimizer0:SGD", {"args": {"groups": [{"lr": made}]}}),)
    load = ("load_state_dict optimizer0:SGD", {"args": {"state": 1, "rates": [loaded]}})
    step = ("backward", ("scalar", "lr", "optimizer0:SGD.0", rate), "step optimizer0:SGD")
    advance = (("scheduler.step StepLR", {"args": {"optimizer": "optimizer0:SGD"}}),) if advanced else ()
    return [mini.window(*new, load, *step, *advance)]
