"""What is frozen rests."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fingerprints import Fingerprints
from preflight.monitor.window import State, Variable, Window
from preflight.vocabulary.counted import counted

_OWN = ("Quant", "Observer", "Codebook")
_STATISTICS = ("running_mean", "running_var")


class FrozenPartsRest(Relation):
    """A buffer of a module whose parameters are all frozen does not change from step to step.

    A correction that is kept beside the weights (the bias that balances the experts of a mixture, a running mean of
    one's own) goes on to move when only the parameters were frozen, and is often not among what is saved with the parts
    that are trained. Running statistics of normalisation belong to what surrounds them: they are judged where all of the
    part that the layer is in is frozen and at rest. Both within a model that is trained otherwise: a network that is fixed
    as a whole may follow the scale of what it is given. A module whose frozen parameters are moved
    by another hand, as those of a target network, is left alone, and so is one that an optimizer has something of.
    """

    name = "frozen-parts-rest"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"exact buffer at after_step", "exact parameter at before_step"})
    severity = "warning"
    priority = 26
    cause = "requires_grad was taken from the parameters, and what is written by hand was forgotten"
    advice = "do not update the buffer while its module is frozen, or save it with what is trained"

    def __init__(self) -> None:
        self._buffers: dict[int, int] = {}
        self._frozen = Fingerprints()
        self._moving: set[int] = set()  # frozen parameters that something writes to

    def see(self, window: Window) -> Iterator[Example]:
        for state in sorted(window.states, key=lambda one: one.q):
            if state.bits is None:
                continue
            if state.what == "parameter":
                if not self._moving.issuperset(state.ids):  # of what was seen to move, nothing more is asked
                    self._moving.update(self._frozen.take(state).moved)
            elif state.what == "buffer" and state.moment == "after_step":
                yield self._judge(state, window)

    def _judge(self, state: State, window: Window) -> Example:
        variables = window.run.variables
        changed = []
        for ident, bits in zip(state.ids, state.bits or (), strict=True):
            if bits is not None and self._buffers.setdefault(ident, bits) != bits and ident in variables:
                changed.append(variables[ident])
            if bits is not None:
                self._buffers[ident] = bits
        names = tuple(one.name for one in changed if self._rests(one, variables))
        step = window.named("step")
        return Example(
            (),
            not names,
            {},
            variables=names,
            expected="buffers that stay as they are",
            seen=counted(len(names), "buffer changed", "buffers changed") if names else None,
            call=step[-1] if step else None,
            detail="Buffers of modules that are frozen change from step to step" if names else "",
        )

    def _rests(self, buffer: Variable, variables: dict[int, Variable]) -> bool:
        """Whether a buffer belongs to a module that is frozen and at rest."""
        if "float" not in buffer.dtype or any(word in buffer.module for word in _OWN):
            return False
        owner, _, word = buffer.name.rpartition(".")
        least = 1
        if not self._trained(buffer.root, variables):
            return False
        if "Norm" in buffer.module:
            layer, owner = owner, owner.rpartition(".")[0]
            if word not in _STATISTICS or "." not in owner:
                return False
            least = 1 + sum(
                one.name.rpartition(".")[0] == layer for one in variables.values() if one.kind == "parameter"
            )
        inside = owner + "."
        held = [one for one in variables.values() if one.kind == "parameter" and one.name.startswith(inside)]
        if len(held) < least:
            return False
        known = [one for one in held if one.id in self._frozen and one.id not in self._moving]
        return bool(held) and len(known) == len(held) and not any(one.trainable or one.optimizer >= 0 for one in held)

    @staticmethod
    def _trained(root: str, variables: dict[int, Variable]) -> bool:
        """Whether an optimizer has parameters of a model."""
        return any(one.root == root and one.trainable and one.optimizer >= 0 for one in variables.values())

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _normalised((1, 2), (1, 2))  # a target network's own statistics
        yield _run(trainable=True, weight=(1, 1), buffer=(1, 2))
        yield _run(trainable=False, weight=(1, 2), buffer=(1, 2))
        yield _run(trainable=False, weight=(1, 1), buffer=(1, 1))
        yield _run(trainable=False, weight=(1, 1), buffer=(1, 2), head=False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(trainable=False, weight=(1, 1), buffer=(1, 2))
        yield _normalised((1, 1), (1, 2))


def _run(trainable: bool, weight: tuple[int, int], buffer: tuple[int, int], head: bool = True) -> list[Window]:
    frozen = {"trainable": trainable, "optimizer": 0 if trainable else -1}
    bias = {"kind": "buffer", "optimizer": -1, "trainable": False}
    mini = Mini({"net.gate.weight": frozen, "net.gate.bias": bias, **({"net.head.weight": {}} if head else {})})
    return [
        mini.window(
            "backward",
            ("before", {"net.gate.weight": (1.0, one)}),
            "step optimizer0:SGD",
            ("buffers", {"net.gate.bias": (1.0, other)}),
        )
        for one, other in zip(weight, buffer, strict=True)
    ]


def _normalised(weight: tuple[int, int], statistics: tuple[int, int]) -> list[Window]:
    frozen = {"trainable": False, "optimizer": -1}
    norm, mean = "net.body.norm.weight", "net.body.norm.running_mean"
    layer = {**frozen, "module": "BatchNorm1d"}
    mini = Mini({"net.head.weight": {}, "net.body.fc.weight": frozen, norm: layer, mean: {**layer, "kind": "buffer"}})
    return [
        mini.window(
            "backward",
            ("before", {"net.body.fc.weight": (1.0, one), norm: (1.0, one)}),
            "step optimizer0:SGD",
            ("buffers", {mean: (1.0, other)}),
        )
        for one, other in zip(weight, statistics, strict=True)
    ]
