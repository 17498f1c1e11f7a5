"""Gradients are clipped to something."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class ClippingLimitPositive(Relation):
    """The limit that gradients are clipped to is above zero.

    A norm below zero, which some programs take for "do not clip", turns every gradient round, since gradients are
    multiplied by the limit over their norm; a norm of zero, or of no number, leaves nothing of them.
    A limit that is infinite only measures, and is fine.
    """

    name = "clipping-limit-positive"
    midway = True
    needs = frozenset({"clip_grad_norm", "clip_grad_value"})
    wakes = frozenset({"clip_grad_norm", "clip_grad_value"})
    repeats = 1
    looks = frozenset({"clip_grad_norm", "clip_grad_value"})
    whole = False
    priority = 7
    cause = "a limit that was meant to switch clipping off is handed on to it"
    advice = "leave the call out where there is no limit, or give infinity to measure the norm only"

    def see(self, window: Window) -> Iterator[Example]:
        for name, word in (("clip_grad_norm", "max_norm"), ("clip_grad_value", "clip_value")):
            for call in window.named(name):
                limit = (call.args or {}).get(word)
                if limit is None or call.error:
                    continue
                wrong = not limit > 0
                yield Example(
                    (),
                    not wrong,
                    {"call": name},
                    variables=(f"{name}_",) if wrong else (),
                    expected="a limit above zero",
                    seen=f"{limit:g}" if wrong else None,
                    call=call,
                    detail=f"Gradients are clipped to {limit:g}" if wrong else "",
                )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        for limit in (1.0, float("inf")):
            yield [Mini().window("backward", ("clip_grad_norm", {"args": {"max_norm": limit}}))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        for limit in (-1.0, 0.0, float("nan")):
            yield [Mini().window("backward", ("clip_grad_norm", {"args": {"max_norm": limit}}))]
        yield [Mini().window("backward", ("clip_grad_value", {"args": {"clip_value": -0.5}}))]
