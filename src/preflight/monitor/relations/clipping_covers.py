"""Clipping finds gradients."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted


class ClippingCovers(Relation):
    """Clipping is given parameters, and at least one of them has a gradient.

    An iterator (``filter``, ``map``, a generator) that was used up before yields nothing, and nothing is clipped;
    torch warns of it only for generators. Clipping before the backward pass, after the gradients were cleared, or after
    a fused optimizer has used and freed them, finds no gradients.
    A part of what an optimizer holds, such as one expert or one branch, may have had no share in the pass: clipped by itself
    after the backward pass, it has none rightly.
    """

    name = "clipping-covers"
    midway = True
    needs = frozenset({"clip_grad_norm", "clip_grad_value", "backward", "step", "zero_grad"})
    wakes = frozenset({"clip_grad_norm", "clip_grad_value"})
    repeats = 1
    looks = frozenset({"clip_grad_norm", "clip_grad_value", "backward", "step", "zero_grad"})
    priority = 18
    cause = "an iterator that was already used up, or a call at a moment when there are no gradients"
    advice = "hand a list (list(model.parameters())) to clipping, between the last backward pass and the step"

    def see(self, window: Window) -> Iterator[Example]:
        for call in (*window.named("clip_grad_norm"), *window.named("clip_grad_value")):
            given = call.args or {}
            if call.error or "parameters" not in given or "gradients" not in given:
                continue
            if given.get("optimizers") == [] and given["parameters"]:
                continue  # not of what an optimizer trains
            if given["parameters"] and (given["gradients"] or (_part(call, window) and self._in_time(call, window))):
                yield Example((), True, {"call": call.name})
                continue
            yield Example(
                (),
                False,
                {"call": call.name},
                variables=(_word(call),),
                expected="parameters with gradients",
                seen=_seen(call),
                call=call,
                detail=f"Gradient clipping does nothing: it is given {_seen(call)}",
            )

    @staticmethod
    def _in_time(call: Call, window: Window) -> bool:
        """Whether the last that happened to gradients before a clipping was a backward pass of this iteration."""
        before = [one for name in ("backward", "step", "zero_grad") for one in window.named(name) if one.q < call.q]
        return bool(before) and max(before, key=lambda one: one.q).name == "backward"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        given = {"args": {"max_norm": 1.0, "parameters": 4, "gradients": 3, "optimizers": [0], "of": [4]}}
        yield [Mini({"model.weight": {}}).window("backward", ("clip_grad_norm", given), "step optimizer0:SGD")]
        idle = {"args": {"max_norm": 1.0, "parameters": 1, "gradients": 0, "optimizers": [0], "of": [1]}}
        mini = Mini({"model.weight": {}, "model.expert.weight": {}})
        yield [mini.window("backward", ("clip_grad_norm", idle), "step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        nothing = {"args": {"max_norm": 1.0, "parameters": 0, "gradients": 0, "optimizers": [], "of": []}}
        yield [Mini({"model.weight": {}}).window("backward", ("clip_grad_norm", nothing), "step optimizer0:SGD")]
        early = {"args": {"max_norm": 1.0, "parameters": 4, "gradients": 0, "optimizers": [0], "of": [4]}}
        yield [Mini({"model.weight": {}}).window(("clip_grad_norm", early), "backward", "step optimizer0:SGD")]


def _part(call: Call, window: Window) -> bool:
    """Whether a clipping was given a part of what its optimizers hold."""
    given = call.args or {}
    owners = given.get("optimizers") or ()
    held = sum(one.optimizer in owners and one.kind == "parameter" for one in window.run.variables.values())
    return bool(sum(given.get("of") or ()) < held)


def _word(call: Call) -> str:
    return call.name + "_"


def _seen(call: Call) -> str:
    count = (call.args or {}).get("parameters")
    return (
        counted(count, "parameter, which has no gradient", "parameters of which none has a gradient")
        if count
        else "no parameters at all"
    )
