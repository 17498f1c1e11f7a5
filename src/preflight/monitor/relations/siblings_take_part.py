"""Of two layers that are made alike, one does not do the work of both."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Variable, Window, within

_TIMES = 2
"""Passes in a row in which a layer says the same again, and its sibling is not called."""
_KINDS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
"""Layers whose results have a norm that tells them apart; what a normalisation gives has nearly always the same."""


class SiblingsTakePart(Relation):
    """A layer does not say the same twice where the one made next to it, just like it, is never called.

    ``mean = self.mean(h)`` and, copied from it, ``variance = self.mean(h)``: both names stand for the same numbers, and the
    layer that was made for the second stays as it is.
    Judged are linear layers and convolutions: within one forward pass a layer is called several times
    with gradients recorded, and gives the same numbers each time, two passes in a row, and a layer beside it, of the same part of the
    model and made right before or after it with parameters of the same shapes, which an optimizer holds, was never called.
    A layer that is not used at all is none by itself, nor is one that is called on several inputs. The layers of a list are
    called by number, and the turn of the next one may come later: a network that grows, or heads of tasks one after the other.
    """

    name = "siblings-take-part"
    needs = frozenset({"forward", "module", "tensor", "backward"})
    wakes = frozenset({"module"})
    severity = "warning"
    priority = 11
    cause = "a line of forward() was copied, and the name of the layer in it was not changed"
    advice = "call the layer that was made for the second result, or remove it"

    def __init__(self) -> None:
        self._called: set[str] = set()
        self._again: dict[str, int] = {}
        self._order: tuple[int, dict[str, list[Variable]]] = -1, {}

    def see(self, window: Window) -> Iterator[Example]:
        modules = window.named("module")
        self._called.update(call.object for call in modules)
        for root in window.named("forward"):
            if not root.context.startswith("grad") or not (root.args or {}).get("training", True):
                continue
            inside = [one for one in within(modules, root) if _plain(one)]
            if inside:
                yield self._judge(root, inside, window)

    def _judge(self, root: Call, within: list[Call], window: Window) -> Example:
        names = {call.object for call in within}
        again = _repeated(within, window) if len(names) < len(within) else set()
        if self._again:
            for one in names - again:
                self._again.pop(one, None)
        pairs = []
        for one in sorted(again):
            self._again[one] = self._again.get(one, 0) + 1
            idle = self._idle(one, window) if self._again[one] >= _TIMES else None
            if idle:
                pairs.append((one, idle))
        return Example(
            (),
            not pairs,
            {},
            variables=tuple(name for pair in pairs for name in reversed(pair)),
            expected="a call of each of two layers that are made alike" if pairs else None,
            seen=f"{pairs[0][0]} says the same twice, and {pairs[0][1]} is never called" if pairs else None,
            call=root,
            detail=f"{pairs[0][0]} is called in place of {pairs[0][1]}" if pairs else "",
        )

    def _idle(self, layer: str, window: Window) -> str | None:
        """The layer made right beside one, and just like it, that was never called."""
        variables = window.run.variables
        if self._order[0] != variables.changes:
            made: dict[str, list[Variable]] = {}
            for one in sorted(variables.values(), key=lambda one: one.id):
                if one.kind == "parameter":
                    made.setdefault(one.name.rpartition(".")[0], []).append(one)
            self._order = variables.changes, made
        made = self._order[1]
        part = layer.rpartition(".")[0]
        beside = [one for one in made if one.rpartition(".")[0] == part]
        if not part or layer not in beside or layer.rpartition(".")[2].isdigit():
            return None
        at = beside.index(layer)
        for other in (*beside[at + 1 : at + 2], *beside[max(0, at - 1) : at]):
            alike = [one.shape for one in made[other]] == [one.shape for one in made[layer]]
            held = all(one.trainable and one.optimizer >= 0 for one in (*made[other], *made[layer]))
            if alike and held and other not in self._called:
                return other
        return None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("mean", 2.0), ("scale", 2.0))
        yield _run(("mean", 2.0), ("mean", 3.0))  # on several inputs, beside one that is not used
        yield _run(("mean", 2.0), ("mean", 2.0), wide=8)  # beside another kind of layer
        yield _run(("mean", 2.0), ("mean", 2.0), held=False)
        same = _run(("mean", 2.0), ("mean", 2.0), kind="LayerNorm")  # of whatever it is given
        yield [*_run(("mean", 2.0)), *same]
        both = _run(("mean", 2.0), ("scale", 2.0))[:1]
        yield [*both, *_run(("mean", 2.0), ("mean", 2.0))[:1]]  # once only
        grown = ("pictures.0", "pictures.1")  # a network that grows: both ends of its blending are the same at first
        yield _run((grown[0], 2.0), (grown[0], 2.0), names=grown)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(("mean", 2.0), ("mean", 2.0))


def _repeated(calls: list[Call], window: Window) -> set[str]:
    """Layers that were called several times and said the same each time."""
    said = {seen.call: (seen.norm, *seen.shape) for seen in window.tensors if seen.position == "out0"}
    gave: dict[str, list[tuple[float | None, ...]]] = {}
    for call in calls:
        gave.setdefault(call.object, []).append(said.get(call.q, (None,)))
    return {one for one, given in gave.items() if len(given) > 1 and given[0][0] and len(set(given)) == 1}


def _plain(call: Call) -> bool:
    """Whether a call is one of a linear layer or a convolution, with gradients recorded."""
    return call.context.startswith("grad") and (call.args or {}).get("type") in _KINDS


def _run(
    *calls: tuple[str, float],
    wide: int = 4,
    held: bool = True,
    kind: str = "Linear",
    names: tuple[str, str] = ("mean", "scale"),
) -> list[Window]:
    """Passes of an encoder that calls layers, which give results of these norms."""
    mini = Mini(
        {
            "model.body.weight": {"shape": [8, 4]},
            f"model.{names[0]}.weight": {"shape": [4, 8]},
            f"model.{names[1]}.weight": {"shape": [wide, 8], "optimizer": 0 if held else -1},
        }
    )
    found = []
    for _ in range(3):
        inside = [
            (
                f"module model.{name}",
                {
                    "args": {"type": kind},
                    "inside": (("tensor", {"object": f"model.{name}", "position": "out0", "norm": norm}),),
                },
            )
            for name, norm in calls
        ]
        window = mini.window(("forward model", {"args": {"training": True}, "inside": inside}), "backward")
        order = [call.q for call in window.calls if call.name == "module"]
        window.tensors = [one._replace(call=at) for one, at in zip(window.tensors, order, strict=True)]
        found.append(window)
    return found
