"""Ranks clip by the same norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import EXCHANGING, REDUCING, SENDING, Wrapped, reduced, uses
from preflight.monitor.window import Window

_CLOSE = 1e-3
_ENOUGH = 0.4
_TOLD = "Ranks that train one model clip its gradients by different norms"
_EARLY = (
    "the gradients are exchanged before the last backward pass of the step, and each rank adds its own ones to them"
)


class RanksClipAlike(Relation):
    """The norm by which gradients are clipped is the same on all ranks that train one model.

    Judged where the gradients were exchanged before the clipping, by a wrapper or by collectives that move a good part
    of the weights: then the norm over the whole model is one number.
    Ranks that each hold a part and clip by its norm scale the parts of one gradient differently. So do ranks that exchange
    what was accumulated before the last backward pass of a step, and add their own gradients of that pass to it.
    Distributed tensors, whose norm each rank sees in part, pipelines and experts are not compared.
    """

    name = "ranks-clip-alike"
    across = True
    needs = frozenset({"clip_grad_norm", "backward"})
    priority = 12
    cause = "each rank clips by the norm of the part of the gradients that it holds"
    advice = "sum the squares over the ranks before the coefficient is computed"

    def __init__(self) -> None:
        self._wrapped = Wrapped()
        self._left_out = False

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._wrapped.see(windows)
        self._left_out = self._left_out or uses(windows.values(), SENDING | EXCHANGING)
        first = next(iter(windows.values()))
        if self._left_out or not first.named("clip_grad_norm"):
            return
        owned = [one for one in first.run.variables.values() if one.kind == "parameter" and one.trainable]
        if any(one.spread and one.spread.get("placements") for one in owned):
            return
        trained = sum(one.numel for one in owned if one.optimizer < 0 or one.root != f"optimizer{one.optimizer}")
        groups = {group for group, moved in reduced(first, "clip_grad_norm").items() if moved >= _ENOUGH * trained > 0}
        groups |= {group for group in self._wrapped.groups if not first.named("no_sync")}
        for group in sorted(groups):
            present = {rank: windows[rank] for rank in group if rank in windows}
            if len(present) > 1:
                yield from self._compare(present)

    @staticmethod
    def _compare(windows: Mapping[int, Window]) -> Iterator[Example]:
        told = {
            rank: [one.value for one in window.numbers if one.name == "grad_norm"] for rank, window in windows.items()
        }
        if len({len(one) for one in told.values()}) != 1:
            return
        for position, values in enumerate(zip(*told.values(), strict=True)):
            known = [value for value in values if value is not None and abs(value) < float("inf")]
            if len(known) < len(values):
                continue
            apart = max(known) - min(known) > _CLOSE * max(known)
            first = next(iter(windows.values()))
            call, early = first.named("clip_grad_norm"), apart and _early(first)
            yield Example(
                (),
                not apart,
                {"ranks": sorted(windows), "exchanged early": early},
                variables=("clip_grad_norm_",) if apart else (),
                expected="one norm on all ranks",
                seen=", ".join(f"{value:.6g} on rank {rank}" for rank, value in zip(told, known, strict=True))
                if apart
                else None,
                call=call[min(position, len(call) - 1)] if call else None,
                detail="" if not apart else f"{_TOLD}: {_EARLY}" if early else _TOLD,
            )

    @classmethod
    def explain(cls, example: Example) -> tuple[str, str]:
        """Where gradients are exchanged too early, that is the cause."""
        if not example.context.get("exchanged early"):
            return cls.cause, cls.advice
        return _EARLY, "exchange the gradients after the last backward pass of the step"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _clipped(1.0, 1.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _clipped(1.0, 1.5)
        yield _clipped(1.0, 1.5, "backward")


def _early(window: Window) -> bool:
    """Whether gradients were exchanged between the backward passes before the clipping, and not after the last of them."""
    until = window.named("clip_grad_norm")[-1].q
    last = max((call.q for call in window.named("backward") if call.q < until), default=-1)
    sums = [call.q for call in window.calls if call.name in REDUCING and call.q < until]
    return bool(sums) and max(sums) < last


def _clipped(*values: float | str) -> list[Window]:
    """Ranks that clip by these norms; words are calls after the exchange."""
    norms = [one for one in values if not isinstance(one, str)]
    windows = []
    for rank, norm in enumerate(norms):
        mini = Mini({"model.weight": {}}, rank, len(norms))
        rows = (
            "backward",
            ("collective.reduce_scatter_tensor", {"args": {"shape": [8], "group": 0}}),
            *(one for one in values if isinstance(one, str)),
            ("clip_grad_norm", {"args": {"max_norm": 1.0}}),
            ("scalar", "grad_norm", "train.py:9", norm),
        )
        windows.append(mini.window(*rows, "step optimizer0:SGD"))
    return windows
