"""Gradients of means, exchanged by the program itself, are averaged and not added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.targets import Counted, Counts, rows
from preflight.monitor.window import Call, State, Window
from preflight.vocabulary.counted import counted

_MORE = 1.05
"""How many times the mean of the ranks' norms the norm of their mean is at most, which is 1, with room for rounding."""
_CLOSE = 1e-3
_SOME = 0.25
"""The share of the parameters that must say so: of the others the ranks' gradients point apart."""
_IN_A_ROW = 2


class ExchangedGradientsAveraged(Relation):
    """Where each rank's loss is a mean over its own samples, gradients that the program exchanges are divided by the ranks.

    A sum over the ranks of gradients of means is as many times too large as there are ranks: the rate is, too, and what
    was tuned on one device does not hold on eight.
    Judged are programs that call all_reduce between the backward pass and the step, where the targets of the loss count
    exactly 1 together on every rank, or the loss is the mean of something, and the ranks' losses differ: those that divide
    one sample among themselves have one loss. No mean of vectors is longer than the vectors are in the mean: it is broken
    where a quarter of the gradients are longer at the step, and alike on all ranks, in two looks in a row. Gradients that
    point far apart hide it. A program whose rate was divided in its place is alarmed as well.
    """

    name = "exchanged-gradients-averaged"
    across = True
    needs = frozenset({"backward", "step", "zero_grad", "scalar", "state", "collective", "exchange"})
    severity = "warning"
    priority = 17
    cause = "all_reduce adds the gradients up, and nothing divides them by the number of ranks"
    advice = "divide the gradients by the world size after all_reduce, or exchange them with ReduceOp.AVG"

    def __init__(self) -> None:
        self._counts: dict[int, Counts] = {}
        self._means: dict[str, bool] = {}  # by place: whether its loss is the mean of something
        self._row = 0

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        told = {rank: list(self._counts.setdefault(rank, Counts()).see(one)) for rank, one in windows.items()}
        for call in next(iter(windows.values())).named("backward"):
            tail = (call.args or {}).get("tail")
            if tail and call.place:
                self._means[call.place] = tail[0][0] == "Mean"
        if len(windows) < 2 or len(windows) < next(iter(windows.values())).run.world:
            return
        longer = _longer(windows)
        if longer is None:
            return
        names, judged = longer
        losses = [tuple(one.value for one in window.numbers if one.name == "loss") for window in windows.values()]
        means = all(self._weighs_one(told[rank], window) for rank, window in windows.items())
        summed = means and len(set(losses)) == len(losses) and len(names) >= max(1.0, _SOME * judged)
        self._row = self._row + 1 if summed else 0
        wrong = self._row >= _IN_A_ROW
        calls = next(iter(windows.values())).named("collective.all_reduce")
        yield Example(
            (),
            not wrong,
            {"ranks": sorted(windows)},
            variables=("all_reduce", *names) if wrong else (),
            expected="gradients that are no longer than those of the ranks are in the mean" if wrong else None,
            seen=f"longer in {len(names)} of {counted(judged, 'gradient')}: added up over {len(windows)} ranks"
            if wrong
            else None,
            call=calls[0] if calls else None,
            detail="Each rank's loss is a mean, and their gradients are added up and not divided" if wrong else "",
        )

    def _weighs_one(self, told: list[tuple[Call, list[Counted]]], window: Window) -> bool:
        """Whether what a rank learnt from counts one altogether."""
        backwards = window.named("backward")
        if len(told) == 1 and told[0][1]:
            return abs(sum(one.share for one in told[0][1]) - 1) <= _CLOSE
        return len(backwards) == 1 and self._means.get(backwards[0].place or "", False)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.9)
        yield _run(1.8, share=0.5)  # divided by the targets of all ranks
        yield _run(1.8, losses=(0.7, 0.7))  # ranks that divide one sample among themselves

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1.8)


def _longer(windows: dict[int, Window]) -> tuple[list[str], int] | None:
    """Names of gradients that are longer at the step than before the exchange in the mean, and how many were compared."""
    local: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for window in windows.values():
        before = window.state("before_exchange", "gradient")
        after = [one for one in window.state("before_step", "gradient") if before and one.q > before[-1].q]
        if len(before) != 1 or not after:
            return None
        for states, found in ((before, local), (after, later)):
            for name, norm in _norms(states, window).items():
                found.setdefault(name, []).append(norm)
    whole = len(windows)
    names = [
        name for name, norms in local.items() if len(norms) == len(later.get(name, ())) == whole and sum(norms) > 0
    ]
    alike = [name for name in names if max(later[name]) - min(later[name]) <= _CLOSE * max(later[name])]
    if not names or len(alike) < len(names):
        return None
    return [name for name in names if later[name][0] > _MORE * sum(local[name]) / whole], len(names)


def _norms(states: Sequence[State], window: Window) -> dict[str, float]:
    return {
        window.run.name(ident): norm
        for state in states
        for ident, norm in zip(state.ids, state.norm, strict=True)
        if norm is not None
    }


def _run(at_step: float, share: float = 1.0, losses: tuple[float, float] = (0.7, 0.8)) -> list[Window]:
    """Two ranks with gradients of length 1 and 0.9, and one of this length at the step."""
    minis = [Mini({"model.weight": {}}, rank, 2) for rank in (0, 1)]
    return [
        mini.window(
            "backward",
            ("loss", loss),
            *rows("train.py:9#0", 16, share / 16),
            ("local", {"model.weight": norm}),
            ("collective.all_reduce", {"args": {"group": 0, "op": "SUM"}}),
            ("gradients", {"model.weight": at_step}),
            "step optimizer0:SGD",
            "zero_grad optimizer0:SGD",
        )
        for _ in range(3)
        for mini, loss, norm in zip(minis, losses, (1.0, 0.9), strict=True)
    ]
