"""A step uses finite gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class GradientsFinite(Relation):
    """The gradients that a step uses are finite, and so are the parameters after it.

    A single NaN makes every parameter that it reaches NaN, and with a moving average in the optimizer for ever.
    Steps that a loss scaler skips are not steps, and an optimizer that is told by the scaler what was found
    (a fused one) leaves the parameters as they are: then only the parameters after the step are judged.
    """

    name = "gradients-finite"
    midway = True
    category = "numerical"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"gradients of a step"})
    repeats = 2
    looks = frozenset({"step", "scaler.step", "gradient at before_step", "parameter at after_step"})
    priority = 25
    cause = "the loss or its gradient overflowed or divided by zero: a rate that is too high, a log or square root of zero, a bad sample, or float16 without a loss scaler"
    advice = "look at the first module whose output is not finite (torch.autograd.detect_anomaly), and clip or skip such steps"

    def see(self, window: Window) -> Iterator[Example]:
        scaled = {call.q for call in window.named("scaler.step")}
        for step in steps_of(window):
            if step.gradients is None or step.closure:
                continue
            inside = step.call.parent in scaled
            bad = () if inside else _not_finite(step.gradients.ids, step.gradients.norm, window)
            after = _not_finite(step.after.ids, step.after.norm, window) if step.after is not None else ()
            wrong = bad or after
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind, "scaler": inside},
                variables=wrong,
                expected="finite gradients and parameters",
                seen=counted(
                    len(wrong),
                    f"{'gradient' if bad else 'parameter'} is not finite",
                    f"{'gradients' if bad else 'parameters'} are not finite",
                )
                if wrong
                else None,
                call=step.call,
                detail=f"A step {'uses gradients' if bad else 'leaves parameters'} that are not finite"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [
            mini.window(("gradients", {"model.weight": 0.5}), "step optimizer0:SGD", ("after", {"model.weight": 1.0}))
        ]
        mini = Mini({"model.weight": {}})
        inner = (("gradients", {"model.weight": float("nan")}), "step optimizer0:SGD", ("after", {"model.weight": 1.0}))
        yield [mini.window(("scaler.step optimizer0:SGD", {"inside": inner}))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        for norms in ((float("nan"), 1.0), (0.5, float("nan"))):
            mini = Mini({"model.weight": {}})
            gradient, after = norms
            yield [
                mini.window(
                    ("gradients", {"model.weight": gradient}), "step optimizer0:SGD", ("after", {"model.weight": after})
                )
            ]


def _not_finite(ids: list[int], norms: list[float | None], window: Window) -> tuple[str, ...]:
    if math.isfinite(sum([norm for norm in norms if norm])):
        return ()
    return tuple(
        window.run.name(ident) for ident, norm in zip(ids, norms, strict=True) if norm is not None and norm - norm != 0
    )
