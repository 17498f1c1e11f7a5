"""Automatic precision is around the passes that train."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")


class AutocastAroundPasses(Relation):
    """Where a training step opens an autocast context, a pass of the model happens inside one.

    Where only the loss is computed in it, and the model was called before, no layer is cast: the training is as slow and
    takes as much memory as without, and says that it uses the lower precision.
    Judged at each step of an optimizer in a detailed iteration, for models with linear or convolutional layers in
    float32, where an autocast context was opened outside of any pass and none was made in it. Where one of the model's
    modules runs in a context of its own, nothing is said; nor where a pass of another network is made in it.
    """

    name = "autocast-around-passes"
    midway = True
    needs = frozenset({"step", "forward", "module"})
    wakes = frozenset({"step"})
    repeats = 2
    looks = frozenset({"backward", "forward", "step"})
    reads = frozenset({"module"})
    severity = "warning"
    priority = 24
    cause = "the model is called before the autocast context is opened, and only the loss is computed in it"
    advice = "call the model inside of the autocast context, together with the loss"

    def kept(self) -> object:
        """Nothing: each step is judged by its own passes."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            idle = (step.call.args or {}).get("casts_idle")
            if idle is not None and step.named("backward") and not step.closure:
                yield from self._judge(step, bool(idle), window)

    def _judge(self, step: Step, idle: bool, window: Window) -> Iterator[Example]:
        roots = window.run.trainable(step.optimizer)
        passes = [
            call
            for call in step.named("forward")
            if (call.context or "").startswith("grad") and call.object.split(".")[0] in roots
        ]
        inner = [*step.named("module"), *window.named("module")]
        layers = {call.object for call in [*passes, *inner] if _kind(call) in _LAYERS}
        whole = {
            one.root
            for one in window.run.variables.values()
            if one.dtype == "float32" and one.name.rpartition(".")[0] in layers
        }
        if not passes or not whole & {call.object.split(".")[0] for call in passes}:
            return
        cast = any("autocast" in (call.context or "") for call in [*step.named("forward"), *inner])
        wrong = idle and not cast
        names = tuple(dict.fromkeys(call.object for call in passes))
        yield Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=names if wrong else (),
            expected="a pass of the model inside of the autocast context",
            seen="an autocast context without any pass in it" if wrong else None,
            call=passes[-1],
            detail=f"{', '.join(names)} is called outside of the autocast context of its step" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _stepped("grad,autocast.cpu=bfloat16", 0)
        yield _stepped("grad,autocast.cpu=bfloat16", 1)  # the loss in a context of its own

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _stepped("grad", 1)


def _kind(call: Call) -> str | None:
    told = call.args or {}
    return told.get("base") or told.get("type")


def _stepped(context: str, idle: int) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    layer = ("module model.fc", {"args": {"type": "Linear", "training": True}, "context": context})
    whole = ("forward model", {"args": {"training": True}, "context": context, "inside": [layer]})
    step = ("step optimizer0:SGD", {"args": {"closure": False, "casts_idle": idle}})
    return [mini.window(whole, "backward", step) for _ in range(2)]
