"""Inputs are not close to zero."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.fetches import numel
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_LEAST = 1 / 255
_FEWEST = 64
_WIDEST = 4096


class InputsOfUsualScale(Relation):
    """What a model is trained on from a loader is not smaller than 1/255 in the mean.

    Pixels that were scaled to at most one and are divided by 255 once more are never larger than that.
    Judged are batches of floating numbers that a loader gave to a model whose first layer is not a normalisation, by
    the root of the mean square; inputs that are zero altogether count too. Rows of very many numbers, of which most are
    zero in a bag of words, are left alone.
    """

    name = "inputs-of-usual-scale"
    category = "data"
    needs = frozenset({"fetch", "forward", "tensor"})
    wakes = frozenset({"fetch"})
    severity = "warning"
    priority = 9
    cause = "the inputs are scaled twice, once where they are loaded and once before the model"
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
            yield Example(
                (),
                not small,
                {"dtype": seen.dtype},
                variables=(seen.object,) if small else (),
                expected=f"at least {_LEAST:.4f}",
                seen=f"{size:.2g}" if small else None,
                call=call,
                detail=f"The inputs of {seen.object} are close to zero" if small else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_given(8.0)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_given(0.01)]
        yield [_given(0.0)]


def _normalised(window: Window, number: int) -> bool:
    """Whether the first layer within a forward pass is a normalisation, as far as its parts were recorded."""
    inner = [call for call in window.named("module") if call.q > number]
    kinds = [str((call.args or {}).get("type", "")) for call in inner[:4]]
    return any("Norm" in kind for kind in kinds)


def _given(norm: float) -> Window:
    tensor = (
        "tensor",
        {"object": "model", "position": "in0", "shape": [8, 64], "norm": norm, "requires_grad": False, "call": 3},
    )
    return Mini().window("fetch loader0", ("forward model", {"inside": [tensor]}), "backward")
