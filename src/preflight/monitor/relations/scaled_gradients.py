"""Loss scaling is undone once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, State, Window

_SLACK = 0.2
_ROW = 12
"""Skipped steps in a row, at a scale of at most one, after which scaling is not the reason."""


class ScaledGradients(Relation):
    """Gradients of a scaled loss are divided by the scale once, and scaling finds a scale at which steps are made.

    Broken where the program divides the gradients by the scale and the scaler does so again, and where step after step
    is skipped although the scale has come down to one: then the gradients themselves are not finite.
    """

    name = "scaled-gradients"
    midway = True
    needs = frozenset({"scaler.scale", "scaler.unscale", "scaler.step", "scaler.update", "state", "scalar"})
    repeats = 2
    looks = frozenset({"scaler.unscale", "step", "zero_grad", "clip_grad_norm", "clip_grad_value"})
    reads = frozenset({"scaler.step", "scalar scale", "gradient at after_backward", "gradient at before_unscale"})
    priority = 17
    cause = "gradients are divided by the scale by hand and by the scaler, or they are not finite at any scale"
    advice = "leave unscaling to scaler.unscale_(optimizer) or scaler.step(optimizer), and look for what is not finite in the loss"

    def __init__(self) -> None:
        self._scale: float | None = None
        self._made: dict[int, float] = {}  # by variable: the norm of its gradient after the last backward pass
        self._skipped = 0

    def see(self, window: Window) -> Iterator[Example]:
        rows: list[Any] = [one for one in window.states if one.moment in ("after_backward", "before_unscale")]
        rows += [one for one in window.numbers if one.name == "scale"]
        rows += window.named("scaler.step")
        if not rows and not self._made:
            return
        for name in ("scaler.unscale", "step", "zero_grad", "clip_grad_norm", "clip_grad_value"):
            rows += window.named(name)
        for row in sorted(rows, key=ORDER):
            if isinstance(row, State):
                if row.moment == "after_backward":
                    self._made = {ident: norm for ident, norm in zip(row.ids, row.norm, strict=True) if norm}
                else:
                    yield from self._unscaled(row, window)
            elif not hasattr(row, "e"):
                self._scale = row.value
            elif row.name == "scaler.step" and optimizer_number(row) >= 0:
                skipped = bool((row.result or {}).get("skipped"))
                self._skipped = self._skipped + 1 if skipped else 0
                wrong = self._skipped >= _ROW and self._scale is not None and self._scale <= 1
                self._made.clear()
                yield Example(
                    (),
                    not wrong,
                    {"skipped": skipped},
                    variables=("GradScaler",) if wrong else (),
                    expected="a step at some scale",
                    seen=f"{self._skipped} skipped steps, at a scale of {self._scale:g}" if wrong else None,
                    call=row,
                    detail="Step after step is skipped although the loss scale is at or below one" if wrong else "",
                )
            else:
                self._made.clear()  # used, cleared, unscaled or clipped: no longer what the backward pass made

    def _unscaled(self, state: State, window: Window) -> Iterator[Example]:
        """Compare gradients as they come to the scaler with what the backward pass made."""
        pairs = [
            (ident, self._made[ident], norm)
            for ident, norm in zip(state.ids, state.norm, strict=True)
            if norm and ident in self._made
        ]
        whole = [norm for _, norm, _ in pairs] + [norm for _, _, norm in pairs]
        if not pairs or not self._scale or self._scale <= 2 or not all(map(math.isfinite, whole)):
            return
        shares = [norm * self._scale / made for _, made, norm in pairs]
        wrong = all(abs(share - 1) < _SLACK for share in shares)
        calls = [call for call in window.calls if call.q > state.q and call.name.startswith("scaler.")]
        yield Example(
            (),
            not wrong,
            {"skipped": False},
            variables=tuple(window.run.name(ident) for ident, _, _ in pairs) if wrong else (),
            expected="gradients that still carry the scale",
            seen=f"gradients that were already divided by the scale of {self._scale:g}" if wrong else None,
            call=calls[0] if calls else None,
            detail="The scaler divides gradients by the scale that somebody else has divided by it already"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _scaled(1000.0, False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _scaled(1.0, False)
        mini = Mini({"model.weight": {}})
        skipped = ("scaler.step optimizer0:SGD", {"result": {"skipped": True}})
        yield [
            mini.window("scaler.scale", "backward", skipped, "scaler.update", ("scalar", "scale", "", 0.5))
            for _ in range(14)
        ]


def _scaled(norm: float, skipped: bool) -> list[Window]:
    mini = Mini({"model.weight": {}})
    rows = (
        "scaler.scale",
        "backward",
        ("made", {"model.weight": 1000.0}),
        ("unscaling", {"model.weight": norm}),
        ("scaler.step optimizer0:SGD", {"result": {"skipped": skipped}}),
        "scaler.update",
        ("scalar", "scale", "train.py:9", 1000.0),
    )
    return [mini.window(*rows) for _ in range(3)]
