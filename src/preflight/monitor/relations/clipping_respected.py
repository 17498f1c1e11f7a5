"""A limit on gradients is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.values import total_norm
from preflight.monitor.window import Call, State, Window

_SLACK = 1.02
_LEARNT = 5
_GROWING = ("backward", "scaler.", "collective.")
"""How the names of calls begin after which gradients may be larger than they were."""


class ClippingRespected(Relation):
    """Where the gradients of an optimizer are clipped before its steps, the gradients that each step uses are within the limit.

    Broken where the gradients grow again after clipping (another backward pass, unscaling, averaging over ranks), and where
    a step of the same loop is made without the clipping that each earlier one had, on gradients above the limit.
    What the program itself does to them in between, such as adding noise, or putting a sum of clipped gradients in their
    place, it does on purpose.
    """

    name = "clipping-respected"
    midway = True
    needs = frozenset({"clip_grad_norm", "step", "state"})
    wakes = frozenset({"gradients of a step"})
    severity = "warning"
    priority = 24
    cause = "something changes the gradients between clipping and the step, or clipping is left out on one of the paths to the step"
    advice = "clip last before the step, on every path that leads to it"

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float, str | None]] = {}  # by optimizer: clipped steps in a row, limit, place

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.gradients is None or step.closure:
                continue
            clips = [call for call in step.named("clip_grad_norm") if _covers(call, step, step.gradients)]
            known = self._known.get(step.optimizer)
            if clips:
                limit = clips[-1].args["max_norm"]  # type: ignore[index]
                count = known[0] + 1 if known is not None else 1
                self._known[step.optimizer] = (count, limit, step.call.place)
                used = total_norm(step.gradients)
                if math.isfinite(used):
                    kept = _within(used, limit) or not _grown(step, clips[-1])
                    yield _held(step) if kept else _example(step, used, limit, "was clipped to")
            elif step.named("clip_grad_norm"):
                continue
            elif (
                known is not None
                and known[0] >= _LEARNT
                and known[2] == step.call.place
                and math.isfinite(used := total_norm(step.gradients))
            ):
                kept = _within(used, known[1])
                words = "was not clipped, as each step before was, to"
                yield _held(step) if kept else _example(step, used, known[1], words)
            else:
                self._known.pop(step.optimizer, None)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window(*_rows(0.999, True)) for _ in range(7)]
        mini = Mini({"model.weight": {}})
        yield [mini.window(*_rows(1.4, True)) for _ in range(7)]  # noise was added

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        clipped = _rows(3.0, True)
        yield [Mini({"model.weight": {}}).window(*clipped[:2], "backward", *clipped[2:])]
        mini = Mini({"model.weight": {}})
        yield [*(mini.window(*_rows(1.0, True)) for _ in range(6)), mini.window(*_rows(3.0, False))]


def _rows(norm: float, clipped: bool) -> tuple[object, ...]:
    given = {"max_norm": 1.0, "norm_type": 2.0, "parameters": 1, "gradients": 1, "optimizers": [0], "of": [1]}
    clip = (("clip_grad_norm", {"args": given}),) if clipped else ()
    return ("backward", *clip, ("gradients", {"model.weight": norm}), "step optimizer0:SGD")


def _covers(call: Call, step: Step, gradients: State) -> bool:
    """Whether a clipping limits the norm of all gradients that a step uses."""
    given = call.args or {}
    counts = dict(zip(given.get("optimizers") or (), given.get("of") or (), strict=False))
    limit = given.get("max_norm")
    return (
        not call.error
        and given.get("norm_type") == 2.0
        and limit is not None
        and limit > 0
        and counts.get(step.optimizer, 0) >= len(gradients.ids)
    )


def _grown(step: Step, clip: Call) -> bool:
    """Whether something that adds to gradients or multiplies them came between a clipping and the step."""
    if (step.call.args or {}).get("rewritten"):
        return False
    since = clip.e
    return any(call.name.startswith(_GROWING) for call in [one for one in step.between if one.q > since])


def _within(used: float, limit: float) -> bool:
    return used <= limit * _SLACK + 1e-6


def _held(step: Step) -> Example:
    return Example((), True, {"optimizer": step.kind}, call=step.call)


def _example(step: Step, used: float, limit: float, words: str) -> Example:
    """What is told of a step whose gradients are above the limit."""
    return Example(
        (),
        False,
        {"optimizer": step.kind},
        variables=("clip_grad_norm_",),
        expected=f"a norm of at most {limit:g}",
        seen=f"a norm of {used:.4g}",
        call=step.call,
        detail=f"A step uses gradients with a norm of {used:.4g}, which {words} {limit:g}",
    )
