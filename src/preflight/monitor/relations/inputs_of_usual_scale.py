"""Inputs are neither close to zero nor bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import numel
from preflight.monitor.window import Call, Seen, Window

_LEAST = 1 / 255
_FEWEST = 64
_WIDEST = 4096
_BYTES, _MOST = 40.0, 255.0
_SCALED = 0.05
_GAIN = 100.0
"""How many times as large as its input what a layer gives out cannot be, as it is initialised: its bias apart, about one."""
_BEYOND = 1.5
"""How many times as large as its bias."""


class InputsOfUsualScale(Relation):
    """What a model is trained on from a loader is not smaller than 1/255 in the mean, and pixels are not left at 0 to 255.

    Pixels that were scaled to at most one and are divided by 255 once more are never larger than that.
    Judged are batches of floating numbers that a loader gave to a model whose first layer is not a normalisation, by
    the root of the mean square; inputs that are zero altogether count too. Rows of very many numbers, of which most are
    zero in a bag of words, are left alone; so is a model that brings them to scale itself, as what its first layer gives
    out shows: a hundred times as much, before any training could.
    Pixels that were made floats and nothing more are between 40 and 255 in the mean, a hundred times what a layer is
    initialised for. They are told where they go into a trained convolution as they are, as what comes out of it shows, and
    nothing in the model normalises.
    """

    name = "inputs-of-usual-scale"
    category = "data"
    needs = frozenset({"fetch", "forward", "tensor"})
    wakes = frozenset({"fetch"})
    severity = "warning"
    priority = 9
    cause = "the inputs are scaled twice, once where they are loaded and once before the model, or not at all"
    advice = "print the smallest, the largest and the mean value of a batch just before the model"

    def see(self, window: Window) -> Iterator[Example]:
        if not window.named("fetch") or not window.named("backward"):
            return
        roots = {call.q: call for call in window.named("forward") if call.context.startswith("grad")}
        for seen in window.tensors:
            call = roots.get(seen.call)
            if call is None or not seen.position.startswith("in") or seen.norm is None or seen.requires_grad:
                continue
            others = [one for one in window.tensors if one.call == seen.call and one.position.startswith("in")]
            elements = numel(seen.shape)
            if len(others) > 1 or len(seen.shape) < 2 or elements < _FEWEST or _normalised(window, call.q):
                continue
            if len(seen.shape) == 2 and seen.shape[1] > _WIDEST:
                continue
            size = seen.norm / elements**0.5
            small = size < _LEAST and not _brought_to_scale(window, call, size)
            first = _into(window, call, seen, size) if _BYTES <= size <= _MOST else ""
            wrong = small or bool(first)
            word = "close to zero" if small else f"those of bytes, and {first} takes them as they are"
            yield Example(
                (),
                not wrong,
                {"dtype": seen.dtype},
                variables=(seen.object, "input", *((first,) if first else ())) if wrong else (),
                expected=f"at most {_BYTES:g} in the mean" if first else f"at least {_LEAST:.4f}",
                seen=f"{size:.2g}" if wrong else None,
                call=call,
                detail=f"The inputs of {seen.object} are {word}" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_given(8.0)]
        yield [_pixels(2900.0, 12.0)]
        yield [_measured(6.0)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_given(0.01)]
        yield [_given(0.0)]
        yield [_measured(2.4)]
        yield [_pixels(2900.0, 2900.0)]


def _into(window: Window, root: Call, given: Seen, size: float) -> str:
    """The convolution that takes in pixels as they are, where nothing normalises and an optimizer holds it."""
    inner = [call for call in window.named("module") if root.q < call.q < root.e]
    if not inner or len(given.shape) != 4 or any("Norm" in str((call.args or {}).get("type")) for call in inner):
        return ""
    leaf = next((call for call in inner if not any(call.q < other.q < call.e for other in inner)), inner[0])
    variables = window.run.variables.values()
    held = any(one.name.rpartition(".")[0] == leaf.object and one.optimizer >= 0 for one in variables)
    if not str((leaf.args or {}).get("type")).startswith("Conv") or not held:
        return ""
    out = next((one for one in window.tensors if one.call == leaf.q and one.position == "out0"), None)
    if out is None or not out.norm or not math.isfinite(out.norm):
        return ""
    return leaf.object if out.norm / numel(out.shape) ** 0.5 >= _SCALED * size else ""


def _brought_to_scale(window: Window, root: Call, size: float) -> bool:
    """Whether the first layer gives out far more than its bias and inputs of that size could make."""
    inner = [call for call in window.named("module") if root.q < call.q < root.e]
    leaf = next((call for call in inner if not any(call.q < other.q < call.e for other in inner)), None)
    if leaf is None or not size:
        return False
    out = next((one for one in window.tensors if one.call == leaf.q and one.position == "out0"), None)
    if out is None or not out.norm or not math.isfinite(out.norm):
        return False
    made = out.norm / float(numel(out.shape)) ** 0.5
    bias = next((one for one in window.run.variables.values() if one.name == f"{leaf.object}.bias"), None)
    if bias is None:
        return bool(made >= _GAIN * size)
    states = (one for one in window.states if one.what == "parameter" and bias.id in one.ids)
    norm = next((state.norm[state.ids.index(bias.id)] for state in states), None)
    return norm is not None and bool(made >= max(_GAIN * size, _BEYOND * norm / float(bias.numel) ** 0.5))


def _normalised(window: Window, number: int) -> bool:
    """Whether the first layer within a forward pass is a normalisation, as far as its parts were recorded."""
    inner = [call for call in window.named("module") if call.q > number]
    kinds = [str((call.args or {}).get("type", "")) for call in inner[:4]]
    return any("Norm" in kind for kind in kinds)


def _pixels(norm: float, after: float) -> Window:
    mini = Mini({"model.conv.weight": {}})
    given = {"object": "model", "position": "in0", "shape": [8, 1, 8, 8], "norm": norm, "requires_grad": False}
    made = {"object": "model.conv", "position": "out0", "shape": [8, 2, 6, 6], "norm": after}
    conv = ("module model.conv", {"args": {"type": "Conv2d", "training": True}})
    window = mini.window("fetch loader0", ("forward model", {"inside": [conv]}), "backward")
    root, inner = (next(call for call in window.calls if call.name == name) for name in ("forward", "module"))
    window.tensors = mini.window(("tensor", {**given, "call": root.q}), ("tensor", {**made, "call": inner.q})).tensors
    return window


def _given(norm: float) -> Window:
    tensor = (
        "tensor",
        {"object": "model", "position": "in0", "shape": [8, 64], "norm": norm, "requires_grad": False, "call": 3},
    )
    return Mini().window("fetch loader0", ("forward model", {"inside": [tensor]}), "backward")


def _measured(after: float) -> Window:
    """Inputs of a ten-thousandth, of which a layer with a bias of 0.2 in the mean makes 128 numbers of this norm."""
    mini = Mini({"model.fc.weight": {"shape": [16, 64]}, "model.fc.bias": {"shape": [16], "numel": 16}})
    layer = ("module model.fc", {"args": {"type": "Linear", "training": True}})
    held = ("before", {"model.fc.weight": 1.0, "model.fc.bias": 0.8})
    window = mini.window(
        "fetch loader0", ("forward model", {"inside": [layer]}), "backward", held, "step optimizer0:SGD"
    )
    root, inner = (next(call for call in window.calls if call.name == name) for name in ("forward", "module"))
    given = {"object": "model", "position": "in0", "shape": [8, 64], "norm": 1e-4 * 512**0.5, "requires_grad": False}
    made = {"object": "model.fc", "position": "out0", "shape": [8, 16], "norm": after}
    rows = [("tensor", {**given, "call": root.q}), ("tensor", {**made, "call": inner.q})]
    window.tensors = mini.window(*rows).tensors
    return window
