"""Scales of normalization layers begin at one."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_LAYERS = ("LayerNorm", "GroupNorm", "BatchNorm", "SyncBatchNorm", "InstanceNorm")
_SMALL = 0.08
"""Below what is chosen on purpose: recurrent batch normalization begins with scales of 0.1."""
_LEAST = 2


class NormScalesAtOne(Relation):
    """Scales of normalization layers do not all begin close to zero, with random numbers in place of ones.

    An initialization that goes over all parameters, rather than over the matrices of linear layers and embeddings, draws
    the scales of normalization layers too. What these give out begins fifty times too small, with signs at random, and
    the gradients of all that comes before them with it: the model trains slowly, or not at all.
    Judged once for each model, at its first step: the root of the mean square of each scale, where a model has at least two
    layer, group, batch or instance norms with scales that are trained. Scales that are exactly zero, as the last norm of a
    residual branch may begin, are left out. It is broken where all others are below 0.08, as recurrent networks may begin
    at 0.1; a model whose weights were loaded is not judged, and neither are scales of which each rank holds a part.
    """

    name = "norm-scales-at-one"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"parameter at before_step", "load_state_dict"})
    repeats = 2
    looks = frozenset({"load_state_dict", "parameter at before_step"})
    whole = False
    severity = "warning"
    priority = 12
    cause = "the initialization draws every parameter at random, those of normalization layers too"
    advice = "initialize by the kind of layer, or only parameters of two and more dimensions, and leave norms at one"

    def __init__(self) -> None:
        self._known: set[str] = set()  # roots that were judged, or whose weights were loaded

    def see(self, window: Window) -> Iterator[Example]:
        self._known.update(call.object.split(".")[0] for call in window.named("load_state_dict"))
        for state in window.states:
            if state.what == "parameter" and state.moment == "before_step":
                roots = window.run.roots_of(state.ids) - self._known
                self._known |= roots
                for root in sorted(roots):
                    yield from self._judge(root, state, window)

    @staticmethod
    def _judge(root: str, state: State, window: Window) -> Iterator[Example]:
        scales: dict[str, float] = {}
        for ident, norm in zip(state.ids, state.norm, strict=True):
            one = window.run.variables.get(ident)
            if one is None or one.root != root or norm is None or not norm or one.spread:
                continue
            meant = one.module.rstrip("123d") in _LAYERS and one.name.endswith(".weight")
            if meant and one.trainable and one.optimizer >= 0:
                scales[one.name] = norm / sqrt(one.numel)
        if len(scales) < _LEAST:
            return
        largest = max(scales.values())
        wrong = largest < _SMALL
        steps = window.named("step")
        yield Example(
            (),
            not wrong,
            {},
            variables=tuple(scales) if wrong else (),
            expected="scales of about one",
            seen=f"{counted(len(scales), 'scale')}, of which the largest is {largest:.2g} in the mean"
            if wrong
            else None,
            call=steps[0] if steps else None,
            detail=f"All scales of normalization layers of {root} begin close to zero" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_first(8.0, 8.0)]
        yield [_first(8.0, 0.2)]
        yield [_first(8.0, 8.0, 0.0)]
        yield [_first(8.0, 0.16, 0.2)]
        yield [_first(0.799999, 0.799999)]  # a tenth each

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_first(0.16, 0.2)]
        yield [_first(0.16, 0.2, 0.0)]
        yield [_first(0.16, 0.2, module="BatchNorm2d")]


def _first(*norms: float, module: str = "LayerNorm") -> Window:
    """The first step of a model whose scales, of 64 numbers each, have these norms."""
    held = {"module": module, "numel": 64, "shape": [64]}
    names = [f"model.{number}.weight" for number in range(len(norms))]
    mini = Mini({"model.fc.weight": {}, **dict.fromkeys(names, held)})
    told = {name: (norm, 7) for name, norm in zip(names, norms, strict=True)}
    return mini.window("backward", ("before", told, {"optimizer": 0}), "step optimizer0:SGD")
