"""Gradients that have a graph of their own: whether anything ever goes back through it.

``torch.autograd.grad(..., create_graph=True)`` gives tensors that a loss may be made of. A hook on them says that a
backward pass came through; it gives nothing back, so that no gradient changes, and holds nothing but a flag.
Of those that are taken without a graph, of what a network says with respect to its inputs, the shapes of these are told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .entry import Entry
from .graph import name_of
from .places import from_program
from .plain import impossible
from .recorder import Recorder
from .tail import WEIGHTS

NAME = "second order"
_WORDS = ("outputs", "inputs")  # the first arguments of torch.autograd.grad
_OF_GRAPH = 4  # where create_graph stands among them
_MOST_PLACES = 64
_MOST_CALLS = 16
"""Calls of a place that are followed; who has used none of their gradients by then was told of."""


_SAYING = ("Sum", "Mean", "View", "Squeeze", "Select", "Index", "Slice", "Gather", "Unbind", "Split")
"""Operations that pick or add up what a network says, and make no loss of it."""
_ACTIVATIONS = ("Tanh", "Relu", "Sigmoid", "Softplus", "LeakyRelu", "Silu", "Gelu", "Elu", "Add", "Sin")
_MOST_DEEP = 8


class _Place:
    """A line of the program that takes gradients with a graph."""

    __slots__ = ("calls", "step", "unused", "used")

    def __init__(self) -> None:
        self.calls = 0
        self.step = -1  # the count of steps at the last call
        self.unused = 0  # calls after which a step was made and nothing had come through the gradients of any
        self.used = False


class SecondOrder:
    """Follows what becomes of gradients with a graph."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._places: dict[str, _Place] = {}
        self._wanted = recorder.wants(NAME)

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """What is told of a call that is to take gradients without a graph: the shapes of inputs that need one and are no parameters."""
        recorder = self._recorder
        outputs, inputs = (kwargs.get(word, args[at] if len(args) > at else None) for at, word in enumerate(_WORDS))
        graph = kwargs.get("create_graph", args[_OF_GRAPH] if len(args) > _OF_GRAPH else False)
        if graph or not self._wanted or not recorder.training or not recorder.detail:
            return None
        kind = recorder.torch.Tensor  # no parameter: those are of another kind
        held = [one for one in _several(inputs) if type(one) is kind and one.requires_grad and one.is_floating_point()]
        said = _several(outputs)
        if not held or not said or not all(type(one) is kind and _says(one.grad_fn) for one in said):
            return None
        return {"without graph": [list(map(int, one.shape)) for one in held]}

    def given(self, entry: Entry, value: Any) -> None:
        """A call has given gradients: tell how many earlier ones of its line were given for nothing."""
        recorder = self._recorder
        if not self._wanted or not recorder.training or not isinstance(value, (tuple, list)):
            return
        kind = recorder.torch.Tensor
        held = [one for one in value if type(one) is kind and one.requires_grad and one.grad_fn is not None]
        line = from_program(entry.place) if held else ""
        if not line or impossible(recorder.torch):
            return
        place = self._places.get(line)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                return
            place = self._places[line] = _Place()
        if not place.used and place.calls and recorder.step > place.step:
            place.unused += 1
        entry.args = {"graph": len(held), "unused": 0 if place.used else place.unused}
        place.step = recorder.step
        if place.used or place.calls >= _MOST_CALLS:
            return
        place.calls += 1
        hook = _marks(place)
        for one in held:
            one.register_hook(hook)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _says(node: Any) -> bool:
    """Whether what an operation gives is said by a layer, or picked out of it or added up, and not compared with anything."""
    for _ in range(_MOST_DEEP):
        if node is None:
            return False
        name = name_of(node)
        if name.startswith(WEIGHTS) and name != "AccumulateGrad":
            return True
        below = [one for one, _ in node.next_functions if one is not None]
        if not name.startswith(_SAYING) and name not in _ACTIVATIONS:
            return False
        node = below[0] if below else None
    return False


def _marks(place: _Place) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        place.used = True

    return hook
