"""What ranks add up in a forward pass is not the same on all of them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import group_of
from preflight.monitor.window import Seen, Window
from preflight.vocabulary.counted import counted

_IN_A_ROW = 2
_LOOKS = 2
"""Looks at parts that are equal and have changed, before one that says so."""


class SummandsDiffer(Relation):
    """Ranks that add up parts of a layer's result, or hold parts of a weight, have different parts.

    In tensor parallelism each rank computes with its own part of a weight, and the partial results are added. Where all
    ranks initialise their parts from one seed, the parts are equal, get equal gradients and stay equal: the model is as
    small as one rank's part.
    Judged are sums of matrices within forward passes that train, by their norms on each rank, in two iterations in a row;
    and fingerprints of parts of distributed tensors before a step, that training has changed twice and left equal: what
    begins with one number everywhere is equal at first.
    """

    name = "summands-differ"
    across = True
    needs = frozenset({"forward", "tensor", "state", "collective", "summands"})
    wakes = None
    priority = 13
    cause = "the parts of a weight are initialised on each rank from the same seed"
    advice = "seed the initialisation of divided weights with the rank, or divide a weight that was initialised whole"

    def __init__(self) -> None:
        self._same = 0
        self._equal: dict[str, list[int | None]] = {}  # of parts that are equal, the fingerprints that they had so far

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        if len(windows) < 2:
            return
        yield from self._sums(windows)
        yield from self._parts(windows)

    def _sums(self, windows: dict[int, Window]) -> Iterator[Example]:
        told = {rank: _summands(window) for rank, window in windows.items()}
        first = next(iter(windows))
        found = []
        judged = False
        for position, (row, group, place) in enumerate(told[first]):
            ranks = [rank for rank in group if rank in told and position < len(told[rank])]
            rows = [told[rank][position][0] for rank in ranks]
            if len(ranks) < 2 or len(ranks) < len(group) or any(one.shape != row.shape for one in rows):
                continue
            judged = True
            if row.norm and all(one.norm == row.norm for one in rows):
                found.append((ranks, place))
        if not judged:
            return
        self._same = self._same + 1 if found else 0
        wrong = found if self._same >= _IN_A_ROW else []
        calls = windows[first].named("collective.all_reduce")
        yield Example(
            (),
            not wrong,
            {},
            variables=tuple(_divided(windows)) if wrong else (),
            expected="partial results that differ between the ranks",
            seen=f"{counted(len(wrong), 'sum')} of the same matrix from each of ranks {', '.join(map(str, wrong[0][0]))}"
            if wrong
            else None,
            call=next((call for call in calls if wrong and call.q == wrong[0][1]), None),
            detail="Ranks that should hold different parts of a layer compute the same" if wrong else "",
        )

    def _parts(self, windows: dict[int, Window]) -> Iterator[Example]:
        held: dict[str, dict[tuple[int, ...], tuple[float | None, int | None]]] = {}
        for window in windows.values():
            for state in window.states:
                if state.moment != "before_step" or state.what != "parameter" or not state.bits:
                    continue
                for ident, norm, bits in zip(state.ids, state.norm, state.bits, strict=False):
                    one = window.run.variables.get(ident)
                    if one is None or len(one.shape) < 2 or (one.spread or {}).get("kind") != "sharded":
                        continue
                    held.setdefault(one.name, {})[tuple((one.spread or {})["ranks"])] = norm, bits
        parts = {name: list(one.values()) for name, one in held.items() if len(one) > 1}
        if not parts:
            return
        same = []
        for name, values in parts.items():
            bits = values[0][1]
            if bits is None or not values[0][0] or any(one != values[0] for one in values):
                self._equal.pop(name, None)
                continue
            known = self._equal.setdefault(name, [])
            if bits not in known:
                known[_LOOKS:] = [bits]
            if len(known) > _LOOKS:
                same.append(name)
        window = next(iter(windows.values()))
        steps = window.named("step")
        yield Example(
            (),
            not same,
            {},
            variables=tuple(same),
            expected="different parts of a weight on different ranks",
            seen=f"equal parts of {counted(len(same), 'weight')}" if same else None,
            call=steps[-1] if steps else None,
            detail="Parts of a divided weight are the same on all ranks" if same else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(1.0, 2.0), (1.5, 2.5), (1.0, 2.0)])
        yield _run([(1.0, 1.0), (1.5, 2.5), (1.0, 1.0)])
        yield _divided_run([(7, 7), (7, 7), (7, 7), (7, 7)])  # one number everywhere, and frozen
        yield _divided_run([(7, 7), (8, 8), (9, 10), (11, 11)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(1.0, 1.0), (1.5, 1.5)])
        yield _divided_run([(7, 7), (8, 8), (9, 9)])


def _summands(window: Window) -> list[tuple[Seen, tuple[int, ...], int]]:
    """What this rank gave to sums within forward passes that train, in order, with the ranks that take part."""
    calls = {call.q: call for call in window.named("collective.all_reduce")}
    if not calls:
        return []
    passes = [call for call in window.named("forward") if call.context.startswith("grad")]
    found = []
    for seen in window.tensors:
        call = calls.get(seen.call)
        if call is None or seen.position != "given" or (call.args or {}).get("op", "SUM") != "SUM":
            continue
        if any(one.q < call.q < one.e for one in passes):
            found.append((seen, group_of(call, window), call.q))
    return found


def _divided(windows: dict[int, Window]) -> list[str]:
    """Names of matrices that are trained; which of them are divided is not told."""
    window = next(iter(windows.values()))
    held = (one for one in window.run.variables.values() if one.kind == "parameter" and one.trainable)
    return [one.name for one in held if len(one.shape) > 1]


def _run(steps: list[tuple[float, float]]) -> list[Window]:
    minis = [Mini({"model.up.weight": {}}, rank, 2) for rank in (0, 1)]
    windows = []
    for norms in steps:
        for mini, norm in zip(minis, norms, strict=True):
            window = mini.window(("forward model", {"inside": (("collective.all_reduce", {"args": {"group": 0}}),)}))
            number = window.named("collective.all_reduce")[0].q
            row = ("tensor", {"object": "collective.all_reduce", "position": "given", "norm": norm, "call": number})
            window.tensors = [one._replace(i=window.iteration) for one in mini.window(row).tensors]
            windows.append(window)
    return windows


def _divided_run(looks: list[tuple[int, int]]) -> list[Window]:
    """Two ranks with a part each of a weight, and the fingerprints of these before each step."""
    minis = [
        Mini({"model.up.weight": {"spread": {"kind": "sharded", "ranks": [rank], "placements": "S(0)"}}}, rank, 2)
        for rank in (0, 1)
    ]
    return [
        mini.window("backward", ("before", {"model.up.weight": (1.0 + bits, bits)}), "step optimizer0:SGD")
        for look in looks
        for mini, bits in zip(minis, look, strict=True)
    ]
