"""Replicas that a program keeps equal by itself stay equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import EXCHANGING, SENDING, Wrapped, apart, parameters, reduced, unplaced, uses
from preflight.monitor.window import Variable, Window
from preflight.vocabulary.counted import counted

_ENOUGH = 0.4
"""The share of the weights that collectives must move for the gradients to count as exchanged."""
_CLOSE = 1e-5
_SETTLED = 2


class UnwrappedReplicas(Relation):
    """Where no wrapper says so, parameters that ranks begin with and train together are equal on all of them after each step.

    Which they are is seen from the run itself: the same fingerprint on all ranks of a group before the first step, and
    between backward pass and step a collective of that group that moves a good part of the weights.
    If the ranks train on different inputs, all such parameters must stay equal.
    If they train on the same inputs (tensor parallelism), normalisation layers must, and whatever stayed equal for two
    steps although it changed.
    Ranks that get the same gradients must hold the same weights from the start.

    A parameter that one rank steps for all of them is compared before the next step, when it has been sent around.

    Programs that average weights now and then (local SGD), whose ranks send to each other (pipelines) or exchange
    tokens (experts) are judged only on what they kept equal themselves.
    """

    name = "unwrapped-replicas"
    across = True
    needs = frozenset({"step", "state", "forward"})
    priority = 15
    cause = "some gradients are not averaged, are averaged in another order or damaged on the way, or ranks clip differently"
    advice = "average the gradient of every replicated parameter on every rank, and broadcast the weights at the start"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._start: dict[tuple[int, ...], dict[str, bool]] = {}
        self._kept: dict[tuple[int, ...], dict[str, int]] = {}
        self._sending = self._exchanging = False

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        self._sending = self._sending or uses(windows.values(), SENDING)
        self._exchanging = self._exchanging or uses(windows.values(), EXCHANGING)
        if self._sending or not all(window.named("step") for window in windows.values()):
            return
        first = next(iter(windows.values()))
        moved = reduced(first)
        if self._wrapped.alone:
            moved.setdefault(tuple(range(first.run.world)), -1)
        for group, elements in moved.items():
            present = {rank: windows[rank] for rank in group if rank in windows}
            if len(present) > 1 and len(present) == len(group):
                yield from self._judge(group, elements, present)

    def _judge(self, group: tuple[int, ...], elements: int, windows: Mapping[int, Window]) -> Iterator[Example]:
        told = {rank: parameters(window) for rank, window in windows.items()}
        names = sorted(set.intersection(*(set(one) for one in told.values())))
        first = windows[group[0]]
        owned = {name: variable for name, variable in unplaced(first).items() if name in names}
        if not owned:
            return
        start = self._start.setdefault(group, {})
        for name in owned:
            if name not in start:
                start[name] = len({one[name][0] for one in told.values()}) == 1
        enough = elements < 0 or elements >= _ENOUGH * sum(variable.numel for variable in owned.values())
        differ = apart(windows)
        holders = [_stepped(window) for window in windows.values()]
        parted = {name for one in holders for name in one if not all(name in other for other in holders)}
        wrong = [
            name
            for name in owned
            if any(len({one[name][at] for one in told.values()}) > 1 for at in _moments(name in parted, told, name))
        ]
        kept = self._kept.setdefault(group, {})
        expected = {name for name in owned if kept.get(name, 0) >= _SETTLED and elements >= 0}
        if differ and enough and not self._exchanging:
            expected.update(name for name in owned if start[name])
        elif differ is False and elements >= 0 and not self._exchanging:
            expected.update(name for name in owned if start[name] and "Norm" in owned[name].module)
        for name in owned:
            changed = all(one[name][0] != one[name][-1] for one in told.values())
            if name not in wrong and changed and start[name]:
                kept[name] = kept.get(name, 0) + 1
        if differ and enough and not self._exchanging and self._began_apart(windows, owned, start):
            expected.update(owned)
        if expected:
            yield _example(first, group, sorted(expected), [name for name in wrong if name in expected])

    def _began_apart(
        self, windows: Mapping[int, Window], owned: Mapping[str, Variable], start: Mapping[str, bool]
    ) -> bool:
        """Whether weights that began differently get the same gradients: then they are meant to be the same."""
        if sum(not start[name] for name in owned) * 2 < len(owned):
            return False
        told = [_gradients(window) for window in windows.values()]
        with_gradient = [[one[name] for one in told] for name in owned if all(name in one for one in told)]
        return len(with_gradient) > 1 and all(
            abs(one - row[0]) <= _CLOSE * row[0] for row in with_gradient for one in row
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained([(7, 8), (7, 8)])
        yield _trained([(7, 8), (7, 7)], elsewhere={"optimizer": -1})  # the other rank is sent what this one steps
        yield _trained([(7, 8), (7, 9)], step_first=True) + _trained([(7, 8), (7, 8)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained([(7, 8), (7, 9)])
        yield _trained([(6, 8), (7, 9)])
        yield _trained([(7, 8), (7, 7)], elsewhere={"optimizer": -1}) + _trained(
            [(8, 9), (7, 7)], elsewhere={"optimizer": -1}
        )
        yield _trained([(7, 8), (7, 9)], module="LayerNorm", inputs=(1, 1))


def _stepped(window: Window) -> set[str]:
    """Parameters that an optimizer of this rank holds."""
    return {one.name for one in window.run.variables.values() if one.optimizer >= 0}


def _moments(parted: bool, told: Mapping[int, Mapping[str, list[int]]], name: str) -> tuple[int, ...]:
    """At which moments a parameter is compared; what one rank steps for all is sent to the others after the step."""
    if not parted:
        return (0, -1)
    return (0,) if all(len(one[name]) > 1 for one in told.values()) else ()


def _gradients(window: Window) -> dict[str, float]:
    found: dict[str, float] = {}
    for state in window.state("before_step", "gradient"):
        for ident, norm in zip(state.ids, state.norm, strict=True):
            if norm is not None and norm > 0:
                found.setdefault(window.run.name(ident), norm)
    return found


def _example(first: Window, group: tuple[int, ...], expected: list[str], wrong: list[str]) -> Example:
    ranks = ", ".join(map(str, group))
    return Example(
        (),
        not wrong,
        {"ranks": list(group)},
        variables=tuple(wrong),
        expected=f"the same values on ranks {ranks}",
        seen=f"other values in {len(wrong)} of {counted(len(expected), 'parameter')}" if wrong else None,
        call=first.named("step")[-1],
        detail=f"Ranks {ranks} train one model and hold different values of its parameters" if wrong else "",
    )


def _trained(
    values: list[tuple[int, int]],
    module: str = "Linear",
    inputs: tuple[int, int] = (1, 2),
    step_first: bool = False,
    elsewhere: Any = None,
) -> list[Window]:
    windows = []
    for rank, (before, after) in enumerate(values):
        about = {"module": module, **((rank and elsewhere) or {})}
        mini = Mini({"model.weight": about, "model.bias": about}, rank, 2)
        sync: Any = ("collective.all_reduce", {"args": {"shape": [32], "group": 0}})
        step: list[Any] = [
            ("gradients", {"model.weight": 0.5, "model.bias": 0.2}),
            ("before", {"model.weight": (1.0, before), "model.bias": (1.0, before)}),
            "step optimizer0:SGD",
            ("after", {"model.weight": (1.0, after), "model.bias": (1.0, after)}),
        ]
        row = ("batch", {"loader": "forward:model", "bits": [inputs[rank]], "shapes": [[4, 8]]})
        rows = [row, "forward model", "backward", *([*step, sync] if step_first else [sync, *step])]
        windows.append(mini.window(*rows))
    return windows
