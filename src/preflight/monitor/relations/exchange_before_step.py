"""What ranks average for a step comes before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import REDUCING, apart, group_of
from preflight.monitor.window import Call, Variable, Window
from preflight.vocabulary.counted import counted

_MOST = 0.9
"""The share of an optimizer's parameters whose shapes are among what is added up, for it to be meant for them."""


class ExchangeBeforeStep(Relation):
    """Where ranks add up tensors of the shapes of all parameters after each step, the weights are equal afterwards.

    A program that averages gradients by itself must do so between the backward pass and the step. After the step it
    averages what is thrown away next: each rank trains on its own data alone, and nothing complains.
    Judged are ranks that began with the same weights, train on different inputs and call ``all_reduce`` after the step, and
    not before it, on tensors of the shapes of the optimizer's parameters, or on one of their size: averages of weights leave
    these equal before the next step. Parameters that a wrapper or a placement spreads are left alone.
    """

    name = "exchange-before-step"
    across = True
    needs = frozenset({"step", "state", "forward"})
    priority = 14
    cause = "gradients are averaged after optimizer.step(), when they have been used"
    advice = "average the gradients after backward() and before optimizer.step()"

    def __init__(self) -> None:
        self._start: dict[str, bool] = {}
        self._late: tuple[tuple[int, ...], Call] | None = None  # what was added up after the last step

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        first = windows[min(windows)]
        if len(windows) < 2 or not all(len(window.named("step")) == 1 for window in windows.values()):
            self._late = None
            return
        told = {rank: _before(window) for rank, window in windows.items()}
        names = sorted(set.intersection(*map(set, told.values())))
        for name in names:
            if name not in self._start:
                self._start[name] = len({one[name] for one in told.values()}) == 1
        if self._late is not None and names:
            group, call = self._late
            mine = [one for rank, one in told.items() if rank in group]
            own = [name for name in names if self._start[name]]
            wrong = [name for name in own if len({one[name] for one in mine}) > 1]
            yield _example(call, group, wrong)
        late = _late(first)
        self._late = late if late is not None and apart(windows) else None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained((8, 8), late=True)  # the weights themselves
        yield [*_trained((8, 8), late=False), *_trained((8, 8), late=True)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained((8, 9), late=True)


def _before(window: Window) -> dict[str, int]:
    """Fingerprints of parameters that nothing spreads before the step."""
    found: dict[str, int] = {}
    variables = window.run.variables
    for state in window.states:
        if state.moment != "before_step" or state.what != "parameter" or state.bits is None:
            continue
        for ident, bits in zip(state.ids, state.bits, strict=True):
            if bits is not None and ident in variables and variables[ident].spread is None:
                found[variables[ident].name] = bits
    return found


def _late(window: Window) -> tuple[tuple[int, ...], Call] | None:
    """The ranks that add up what looks like the gradients of a step after it and not before, and the first such call."""
    step = window.named("step")[0]
    held = [one for one in window.run.variables.values() if one.kind == "parameter" and one.optimizer >= 0]
    sums = [call for call in window.calls if call.name in REDUCING]
    late = [call for call in sums if call.q > step.e and call.name == "collective.all_reduce"]
    if not late or not held or any(_meant(held, [call for call in sums if call.q < step.q])):
        return None
    group = group_of(late[0], window)
    return (group, late[0]) if _enough(held, late) and len(group) > 1 else None


def _meant(held: list[Variable], calls: list[Call]) -> Iterator[bool]:
    """For each call, whether it may be an exchange of gradients."""
    shapes = {tuple(one.shape) for one in held}
    total = sum(one.numel for one in held)
    for call in calls:
        shape = tuple((call.args or {}).get("shape") or ())
        yield shape in shapes or _size(shape) >= _MOST * total


def _enough(held: list[Variable], calls: list[Call]) -> bool:
    """Whether tensors of the shapes of nearly all parameters, or one of their size, are added up."""
    total = sum(one.numel for one in held)
    shapes = [tuple((call.args or {}).get("shape") or ()) for call in calls]
    if any(_size(shape) == total and len(shape) == 1 for shape in shapes):
        return True
    given, found = Counter(shapes), 0
    for one in held:
        shape = tuple(one.shape)
        if given[shape] > 0:
            given[shape] -= 1
            found += one.numel
    return found >= _MOST * total


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for one in shape:
        size *= one
    return size


def _example(call: Call, group: tuple[int, ...], wrong: list[str]) -> Example:
    ranks = ", ".join(map(str, group))
    return Example(
        (),
        not wrong,
        {"ranks": list(group)},
        variables=tuple(wrong),
        expected=f"the same weights on ranks {ranks} after what they add up",
        seen=counted(len(wrong), "parameter that differs after it", "parameters that differ after it")
        if wrong
        else None,
        call=call,
        detail=f"Ranks {ranks} add up gradients after the step that they were meant for" if wrong else "",
    )


def _trained(values: tuple[int, int], late: bool) -> list[Window]:
    """Two iterations of two ranks; the second one begins with these weights."""
    rows: list[list[Window]] = [[], []]
    minis: Mapping[int, Mini] = {rank: Mini({"model.weight": {"shape": [4, 2]}}, rank, 2) for rank in range(2)}
    for weights in ((7, 7), values):
        for rank, mini in minis.items():
            total = ("collective.all_reduce", {"args": {"shape": [4, 2], "group": 0}})
            given = ("batch", {"loader": "forward:model", "bits": [rank], "shapes": [[4, 8]]})
            step = (("before", {"model.weight": (1.0, weights[rank])}), "step optimizer0:SGD")
            order = (*step, total) if late else (total, *step)
            rows[rank].append(mini.window(given, "forward model", "backward", *order))
    return [window for pair in zip(*rows, strict=True) for window in pair]
