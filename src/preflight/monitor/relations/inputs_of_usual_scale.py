"""Inputs are neither close to zero nor bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.monitor.fetches import numel
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Seen, Window

_LEAST = 1 / 255
_FEWEST = 64
_WIDEST = 4096
_BYTES, _MOST = 40.0, 255.0
_SCALED = 0.05


class InputsOfUsualScale(Relation):
    """What a model is trained on from a loader is not smaller than 1/255 in the mean, and pixels are not left at 0 to 255.

    Pixels that were scaled to at most one and are divided by 255 once more are never larger than that.
    Judged are batches of floating numbers that a loader gave to a model whose first layer is not a normalisation, by
    the root of the mean square; inputs that are zero altogether count too. Rows of very many numbers, of which most are
    zero in a bag of words, are left alone.
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
            small = size < _LEAST
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

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_given(0.01)]
        yield [_given(0.0)]
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
