"""Automatic precision reaches the layers."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_CAST = ("float32", "float16", "bfloat16")


class AutocastReachesLayers(Relation):
    """Under autocast, linear and convolutional layers give out the lower precision that was asked for.

    Judged for each call of such a layer in a detailed iteration that begins inside an autocast context of the device
    its input lies on, with an input that autocast casts (float32, float16, bfloat16).
    A layer that gives out float32 there was not cast: another implementation of its operator took its place, or
    autocast was switched off inside it.
    """

    name = "autocast-reaches-layers"
    midway = True
    needs = frozenset({"module", "tensor"})
    wakes = frozenset({"tensor"})
    repeats = 1
    looks = frozenset({"forward", "tensors"})
    reads = frozenset({"module"})
    whole = False
    severity = "warning"
    priority = 25
    cause = (
        "the layer's operator is one that autocast does not know (a custom function or kernel), or its forward method "
        "switches autocast off"
    )
    advice = "register the operator for autocast (torch.amp.custom_fwd), or cast its inputs by hand"

    def see(self, window: Window) -> Iterator[Example]:
        calls = {
            call.q: call
            for name in ("module", "forward")
            for call in window.named(name)
            if "autocast." in (call.context or "") and _kind(call) in _LAYERS
        }
        if not calls:
            return
        given = {seen.call: seen for seen in window.tensors if seen.position == "in0" and seen.call in calls}
        for seen in window.tensors:
            call = calls.get(seen.call)
            first = given.get(seen.call)
            if call is None or first is None or seen.position != "out0" or first.dtype not in _CAST:
                continue
            wanted = _asked(call.context or "", first.device)
            if wanted is None:
                continue
            kind = _kind(call)
            holds = seen.dtype == wanted
            yield Example(
                (),
                holds,
                {"layer": kind, "autocast": wanted},
                variables=(call.object,),
                expected=wanted,
                seen=None if holds else seen.dtype,
                call=call if holds else window.pass_of(call),
                detail="" if holds else f"{call.object} gives out {seen.dtype} under autocast to {wanted}",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _layer("bfloat16")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _layer("float32")


def _kind(call: Call) -> str | None:
    """The layer of torch that was called; a class of the program that is made from one counts as that."""
    told = call.args or {}
    return told.get("base") or told.get("type")


def _asked(context: str, device: str) -> str | None:
    """The dtype that autocast was asked for on a device, from a call's context."""
    for word in context.split(","):
        head, _, dtype = word.partition("=")
        if head == f"autocast.{device.split(':')[0]}":
            return dtype
    return None


def _layer(dtype: str) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    more = {"args": {"type": "Linear", "training": True}, "context": "grad,autocast.cpu=bfloat16"}
    first = mini.window(("module model.fc", more))
    number = first.calls[0].q
    for position, kind in (("in0", "float32"), ("out0", dtype)):
        first.tensors += mini.window(
            ("tensor", {"object": "model.fc", "position": position, "dtype": kind, "call": number})
        ).tensors
    return [first]
