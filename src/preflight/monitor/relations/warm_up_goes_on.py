"""A warm-up goes on until it is at its end."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.options import numbers_of
from preflight.monitor.window import ORDER, Call, Window

_RISES = 4
"""Rises in a row, from the first step on, by one and the same amount, that are a warm-up."""
_AGAIN = 3
"""Steps at the first rates of a warm-up, in their order, that tell that it begins anew."""
_EVEN = 1e-3
"""How far two rises may lie apart, as a share of them."""
_SAME = 1e-9
"""How far two rates may lie apart that are one, as a share of them: the program works them out anew."""


class WarmUpGoesOn(Relation):
    """A rate that the program raises by the same amount with each step does not fall back to its beginning on the way.

    Who works out the rate by hand needs the number of the step in the whole training. With the number within the epoch in
    its place, the warm-up begins anew with each epoch: it never gets to its end, and where it is given up at last the
    rate jumps.
    Judged are optimizers whose rate rises evenly from their first step on and that no scheduler advances. It is broken
    where the rate is at its first value again while it still rises, and then at the next two in their order. A warm-up
    that has come to its end is none of these: it rests or falls before it may begin anew, or has got to a rate that
    somebody chose, as one that is as long as each of several tasks. Nor is one after a state was loaded, of an optimizer
    or of a model: a search for a rate puts the weights back and begins anew.
    """

    name = "warm-up-goes-on"
    needs = frozenset({"step", "scalar"})
    wakes = frozenset({"step", "scheduler.step", "load_state_dict"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "the rate is worked out from the number of the step within the epoch, not within the training"
    advice = "count the steps of all epochs: epoch * steps_per_epoch + step"

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        self._risen: dict[str, list[float]] = {}
        self._again: dict[str, int] = {}  # by optimizer: steps at the first rates anew
        self._settled: set[str] = set()  # optimizers of which nothing more is to be said

    def see(self, window: Window) -> Iterator[Example]:
        if window.named("load_state_dict"):
            self._settled.update(self._risen)
        for call in (*window.named("scheduler.step"), *window.named("load_state_dict")):
            name = _owner(call)
            if name not in self._settled:
                yield Example((), True, {"optimizer": name.split(":")[-1]}, call=call)
            self._settled.add(name)
        numbers = [one for one in window.numbers if one.name == "lr" and one.object.endswith(".0")]
        at = 0
        for call in sorted(window.named("step"), key=ORDER):
            while at < len(numbers) and numbers[at].q < call.q:
                self._rates[numbers[at].object[: -len(".0")]] = numbers[at].value or 0.0
                at += 1
            rate = self._rates.get(call.object)
            if rate is not None and call.object not in self._settled:
                yield from self._take(call, rate, window)

    def _take(self, call: Call, rate: float, window: Window) -> Iterator[Example]:
        risen = self._risen.setdefault(call.object, [])
        again = self._again.get(call.object, 0)
        if not again and _goes_on(risen, rate):
            risen.append(rate)
            return
        if len(risen) > _RISES and isclose(rate, risen[again], rel_tol=_SAME):
            self._again[call.object] = again + 1
            if again + 1 < _AGAIN:
                return
        self._settled.add(call.object)
        if len(risen) > 1:
            at_its_end = any(isclose(risen[-1], one, rel_tol=_EVEN) for one in numbers_of(window))
            yield _example(call, risen, at_its_end or self._again.get(call.object, 0) < _AGAIN)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        up = [0.01 * step for step in range(1, 8)]
        yield _run([*up, *[0.07] * 4, *up])
        yield _run([*up, 0.01, 0.07, 0.06])
        yield _run([*up, 0.05, 0.03, 0.01, *up])
        yield _run([*up, *up], schedule=True)
        yield _run([0.01, 0.02, 0.03, 0.01, 0.02, 0.03])
        yield _run([*up, *up], chosen=up[-1])
        yield [*_run(up), Mini({"model.weight": {}}).window("load_state_dict model"), *_run(up)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.01 * step for step in (*range(1, 8), *range(1, 8))])


def _owner(call: Call) -> str:
    """The optimizer that a call changes: of a scheduler, or its own."""
    return (call.result or {}).get("optimizer") or (call.args or {}).get("optimizer") or call.object


def _goes_on(risen: list[float], rate: float) -> bool:
    """Whether a rate is the next one of a rise by one amount."""
    if len(risen) < 2:
        return not risen or rate > risen[0]
    rise = risen[1] - risen[0]
    return isclose(rate - risen[-1], rise, rel_tol=_EVEN)


def _example(call: Call, risen: list[float], holds: bool) -> Example:
    first, last = f"{risen[0]:g}", f"{risen[-1]:g}"
    return Example(
        (),
        holds,
        {"optimizer": call.object.split(":")[-1]},
        variables=() if holds else (call.object,),
        expected=f"a rate above {last}, or one that the warm-up ends with",
        seen=None if holds else f"from {first} to {last} in {len(risen)} steps, and from {first} again",
        call=call,
        detail="" if holds else f"The warm-up of {call.object} begins anew before it is at its end",
    )


def _run(rates: list[float], schedule: bool = False, chosen: float | None = None) -> list[Window]:
    mini = Mini({"model.weight": {}})
    if chosen is not None:
        mini.run.notes["settings"] = [{"options": {"lr": chosen}}]
    told = {"optimizer": "optimizer0:SGD", "rates": [0.1]}
    more = [("scheduler.step LambdaLR", {"args": {"before": [0.1]}, "result": told})] if schedule else []
    return [
        mini.window("backward", ("scalar", "lr", "optimizer0:SGD.0", rate), "step optimizer0:SGD", *more)
        for rate in rates
    ]
