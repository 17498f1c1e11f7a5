"""A model that is evaluated in a lower precision is trained in it, too."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
_LOWER = ("bfloat16", "float16")
_STEPS = 2


class AutocastWhenTrained(Relation):
    """A model that runs under autocast while it is evaluated runs under it while it is trained.

    The context of mixed precision is put around the evaluation, and the pass that is trained lies outside of it: it
    takes the time and the memory of full precision, and nobody is told.
    It is broken where the passes of training before two steps were all outside of any autocast, with linear or
    convolutional layers that gave out float32, and passes of the same model without gradients, in evaluation mode, were
    under an autocast to a lower precision. Training in the lower precision and evaluating in full is left alone.
    """

    name = "autocast-when-trained"
    needs = frozenset({"forward", "module", "tensor", "step"})
    wakes = frozenset({"forward"})
    repeats = 3
    looks = frozenset({"forward", "step"})
    reads = frozenset({"module"})
    severity = "warning"
    priority = 27
    cause = "the autocast context is around the evaluation only, or the pass of training has left it"
    advice = "compute the loss inside of the autocast context, and call backward outside of it"

    def __init__(self) -> None:
        self._full: dict[str, int] = {}  # by model: steps before which it was trained in full precision
        self._lower: dict[str, Call] = {}  # by model: its evaluation in a lower precision
        self._seen: set[str] = set()  # models of which a layer gave out float32 in training
        self._meant: set[str] = set()  # models that were trained under autocast

    def kept(self) -> object:
        """How many models are known to be trained in full precision, and under autocast."""
        return len(self._seen), len(self._meant)

    def see(self, window: Window) -> Iterator[Example]:
        trained: dict[str, Call] = {}
        for call in window.named("forward"):
            under = "autocast" in call.context
            if call.context.startswith("grad"):
                trained.setdefault(call.object, call)
                if under:
                    self._meant.add(call.object)
            elif _lower(call.context) and (call.args or {}).get("training") is False:
                self._lower[call.object] = call
        self._layers(window)
        if not window.named("step"):
            return
        for name, call in trained.items():
            self._full[name] = self._full.get(name, 0) + 1
            lower = self._lower.get(name)
            if lower is None or name not in self._seen | self._meant:
                continue
            wrong = self._full[name] >= _STEPS and name not in self._meant
            yield Example(
                (),
                not wrong,
                {"model": name},
                variables=(name, "autocast") if wrong else (),
                expected="the precision of its evaluation",
                seen=f"float32 in training, autocast in evaluation ({lower.context})" if wrong else None,
                call=call,
                detail=f"{name} is trained outside of the autocast that it is evaluated in" if wrong else "",
            )

    def _layers(self, window: Window) -> None:
        """Which models had layers that gave out float32, or less, in a pass of training."""
        layers = {
            call.q: call
            for kind in _LAYERS
            for call in window.layers().get(kind, ())
            if call.context.startswith("grad") and (call.args or {}).get("type") == kind
        }
        for seen in window.tensors if layers else ():
            call = layers.get(seen.call)
            if call is None or seen.position != "out0":
                continue
            full = seen.dtype == "float32" and "autocast" not in call.context
            (self._seen if full else self._meant).add(window.pass_of(call).object)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("grad,autocast.cpu=bfloat16", "bfloat16")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("grad", "float32")


def _lower(context: str) -> bool:
    """Whether a context is an autocast to a lower precision."""
    return "autocast" in context and any(f"={kind}" in context for kind in _LOWER)


def _run(context: str, dtype: str) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    evaluated = {"args": {"training": False}, "context": "nograd,autocast.cpu=bfloat16"}
    windows = []
    for _ in range(3):
        inside = [("module model.fc", {"args": {"type": "Linear", "training": True}, "context": context})]
        passed = ("forward model", {"args": {"training": True}, "context": context, "inside": inside})
        window = mini.window(("forward model", evaluated), passed, "backward", "step optimizer0:SGD")
        number = window.named("module")[0].q
        told = {"object": "model.fc", "position": "out0", "dtype": dtype, "call": number}
        window.tensors += mini.window(("tensor", told)).tensors
        windows.append(window)
    return windows
