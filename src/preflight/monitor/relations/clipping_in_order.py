"""Clipping comes in its place."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window

_SCALED_LIMIT = 1000.0
"""From such a limit on it is taken to be meant for scaled gradients."""


class ClippingInOrder(Relation):
    """Gradients are clipped once for a step: after the last backward pass and after unscaling, before the step.

    Clipped after the step, they were used unclipped. Clipped while they carry the loss scale, every step is cut to
    almost nothing. Clipped after each of several accumulated passes, the earlier ones are clipped again and again.
    """

    name = "clipping-in-order"
    midway = True
    needs = frozenset({"clip_grad_norm", "clip_grad_value", "step", "backward", "scaler.unscale", "scaler.step"})
    repeats = 3
    looks = frozenset(
        {
            "backward",
            "autograd.grad",
            "clip_grad_norm",
            "clip_grad_value",
            "scaler.scale",
            "scaler.update",
            "scaler.unscale",
            "scaler.step",
            "zero_grad",
            "step",
        }
    )
    priority = 16
    cause = "the call of clip_grad_norm_ stands at the wrong place of the loop"
    advice = "order it so: backward(), scaler.unscale_(optimizer) if there is a scaler, clip_grad_norm_(), step()"

    def __init__(self) -> None:
        self._backward = -1
        self._grad = -1
        self._stepped: dict[int, int] = {}
        self._used: dict[int, bool] = {}  # whether a backward pass came before the last step
        self._scaled = False
        self._unscaled: set[int] = set()
        self._clips: dict[
            int, Call
        ] = {}  # the last clipping of an optimizer's gradients since they were cleared or used

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "backward":
                self._backward = call.q
            elif call.name == "autograd.grad":
                self._grad = call.q
            elif call.name in ("clip_grad_norm", "clip_grad_value"):
                yield from self._clip(call)
            elif call.name == "scaler.scale":
                self._scaled = True
            elif call.name == "scaler.update":
                self._scaled = False
                self._unscaled.clear()
            elif call.name in ("scaler.unscale", "scaler.step"):
                yield from self._unscale(call)
                if call.name == "scaler.step":
                    self._used_up(optimizer_number(call), window)
            elif call.name == "zero_grad":
                if call.object.startswith("optimizer"):
                    self._used_up(optimizer_number(call), window)
                else:
                    self._clips.clear()
            elif call.name == "step":
                index = optimizer_number(call)
                self._used[index] = self._backward > self._stepped.get(index, -1)
                self._stepped[index] = call.q
                self._used_up(index, window)

    def _used_up(self, index: int, window: Window) -> None:
        """Forget what was clipped for an optimizer; of all, where another one, which may lie idle, holds its weights too."""
        if window.run.trainable(index):
            self._clips.pop(index, None)
        else:
            self._clips.clear()

    def _clip(self, call: Call) -> Iterator[Example]:
        given = call.args or {}
        owners = [index for index in given.get("optimizers") or () if index >= 0]
        if call.error or not owners or not given.get("gradients"):
            return
        late = all(self._used.get(index) and self._stepped[index] > max(self._backward, self._grad) for index in owners)
        before = [self._clips[index] for index in owners if index in self._clips]
        again = any(one.place == call.place and one.q < self._backward for one in before)
        for index in owners:
            self._clips[index] = call
        word = ""
        if late:
            word = "Gradients are clipped after the step that used them"
        elif again:
            word = "Gradients are clipped between the backward passes of one step"
        yield self._example(call, word)

    def _unscale(self, call: Call) -> Iterator[Example]:
        index = optimizer_number(call)
        if not self._scaled or index in self._unscaled:
            return
        self._unscaled.add(index)
        clip = self._clips.get(index)
        if clip is None or clip.q < self._backward:
            return
        limit = (clip.args or {}).get("max_norm") or (clip.args or {}).get("clip_value") or 0.0
        word = "Gradients are clipped while they still carry the loss scale" if limit < _SCALED_LIMIT else ""
        yield self._example(clip, word)

    @staticmethod
    def _example(call: Call, word: str) -> Example:
        return Example(
            (),
            not word,
            {"call": call.name},
            variables=(call.name + "_",) if word else (),
            expected="clipping after the last backward pass and unscaling, before the step",
            seen=word[0].lower() + word[1:] if word else None,
            call=call,
            detail=word,
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("zero_grad optimizer0:SGD", "backward", "backward", _CLIP, "step optimizer0:SGD")
        yield [mini.window(*rows) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        scaled = ("scaler.scale", "backward", "scaler.unscale optimizer0:SGD", _CLIP, "scaler.step optimizer0:SGD")
        yield [mini.window(*scaled, "scaler.update") for _ in range(3)]
        mini = Mini({"model.weight": {}})
        second = ("zero_grad optimizer1:SGD", "backward", _CLIP, "step optimizer1:SGD")
        yield [mini.window(*second) for _ in range(3)]  # optimizer0 holds the same weights, and is not used

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("zero_grad optimizer0:SGD", "backward", "step optimizer0:SGD", _CLIP)]
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", _CLIP, "backward", _CLIP, "step optimizer0:SGD", "zero_grad optimizer0:SGD")]
        mini = Mini({"model.weight": {}})
        yield [mini.window("scaler.scale", "backward", _CLIP, "scaler.step optimizer0:SGD", "scaler.update")]


_CLIP = ("clip_grad_norm", {"args": {"max_norm": 1.0, "parameters": 4, "gradients": 4, "optimizers": [0], "of": [4]}})
