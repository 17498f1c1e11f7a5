"""What a model learns is made of parameters."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "leaf.left"


class LeavesAreParameters(Relation):
    """No module keeps a plain tensor that gathers gradients in every pass and that nobody steps.

    ``model.parameters()`` does not know of a tensor with ``requires_grad=True`` that is no ``nn.Parameter``: it keeps its
    first values, is not saved, and is not moved with the model. Its gradients add up and are never cleared.
    Judged are attributes of the modules of a model, in its first passes that train: the same tensor as before, with a
    gradient, held by no optimizer and not written to since. A tensor that the program updates or makes anew is left alone.
    So is an ``nn.Parameter`` in a plain list, a table or an object that is no module: the model does not know of it either.
    """

    name = "leaves-are-parameters"
    needs = frozenset({"forward", "scalar", _NAME})
    wakes = frozenset({"forward", f"scalar {_NAME}"})
    repeats = 3
    looks = frozenset({"forward"})
    reads = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 8
    cause = "the tensor is no nn.Parameter, or one that is held in a plain list or by an object that is no nn.Module"
    advice = "wrap it in nn.Parameter, a list of them in nn.ParameterList, and make a module of what holds it"

    def see(self, window: Window) -> Iterator[Example]:
        forwards = [call for call in window.named("forward") if call.context.startswith("grad")]
        if not forwards:
            return
        names = tuple(dict.fromkeys(one.object for one in window.numbers if one.name == _NAME))
        yield Example(
            (),
            not names,
            {},
            variables=names,
            expected="an nn.Parameter",
            seen="a tensor that gathers gradients and is neither stepped nor cleared" if names else None,
            call=forwards[0],
            detail="A tensor of the model needs gradients, but is no parameter" if names else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {}}).window("forward model", "backward", "step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        left = ("scalar", _NAME, "model.token", 1.0)
        yield [mini.window("forward model"), mini.window("forward model", left, "backward")]
