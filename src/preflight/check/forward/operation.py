"""One operation of a forward pass, and the table of rules that say what it makes and what autograd keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from preflight.check.forward.casting import computed_in, width_of
from preflight.check.forward.tensors import Result, Shape, Tensor
from preflight.check.queries.tensors import grad_off, is_method, option
from preflight.source.values import Obj, Value, plain

if TYPE_CHECKING:
    from preflight.check.forward.follow import Forward

RULES: dict[str, Callable[[Operation], Result]] = {}
"""What an operation makes, by the name that function, method and module have in common (``check.tensors``)."""

MASK = 0.25
"""A mask's one byte an element, in elements of four bytes."""


class Operation:
    """An operation on tensors.

    Attributes:
        forward: The pass that it belongs to.
        value: What it makes.
        name: The name that function, method and module have in common.
        layer: The module that was called, if one was.
        first: Its first operand.
    """

    __slots__ = ("first", "forward", "layer", "name", "value")

    def __init__(self, forward: Forward, value: Obj, name: str, layer: Obj | None, first: Value | None) -> None:
        self.forward = forward
        self.value = value
        self.name = name
        self.layer = layer
        self.first = first

    @property
    def input(self) -> Tensor | None:
        """The first operand."""
        return self.forward.tensor(self.first)

    @property
    def recorded(self) -> bool:
        """Whether autograd records here: not where it is off, nor in a frozen layer that is given nothing with a gradient."""
        found = not grad_off(self.value.context)
        found = found and (self.learns or any(self._is_graded(value) for value in self.operands()))
        self.forward.passing = self.forward.passing or not found
        return found

    @property
    def learns(self) -> bool:
        """Whether the weights of the layer, if it is one, get a gradient."""
        return self.layer is None or id(self.layer) not in self.forward.frozen

    def _is_graded(self, value: Value) -> bool:
        found = self.forward.tensor(value)
        return found is not None and found.graded

    def operands(self) -> list[Value]:
        """Return the operand and all positional arguments behind it."""
        own = self.value.receiver if is_method(self.value) else None
        return [own, *self.value.args] if own is not None else list(self.value.args)

    def option(self, position: int, keyword: str) -> Value | None:
        """Return an option; positions count behind the operand, from 0. Of a module: what it was made with."""
        if self.layer is not None:
            return self.layer.argument(position, keyword)
        return option(self.value, position, keyword)

    def number(self, position: int, keyword: str, default: int | None = None) -> int | None:
        """Return an option that is a whole number: ``default`` where it is not given, None where it is not known."""
        given = self.option(position, keyword)
        if given is None:
            return default
        return self.forward.size(given)

    def flag(self, position: int, keyword: str, default: bool = False) -> bool:
        """Return an option that is true or false; the default where it is not known."""
        found = plain(self.option(position, keyword), default)
        return found if isinstance(found, bool) else default

    def rest(self) -> list[Value]:
        """Return the positional arguments behind the operand."""
        return list(self.value.args) if is_method(self.value) else list(self.value.args[1:])

    def makes(self, shape: Shape | None, graded: bool | None = None) -> Tensor | None:
        """Return a new tensor; gradients flow to it where they flow to the operand, or as told."""
        if shape is None or any(size < 0 for size in shape):
            return None
        if graded is None:
            source = self.input
            graded = source is not None and source.graded
        times = self.forward.passes(self.value.context)
        made = self.forward.new(shape, graded and self.recorded, times)
        if self.forward.casts:
            made.storage.width = width_of(self.name, map(self.forward.tensor, self.operands()))
        return made

    def views(self, shape: Shape | None) -> Tensor | None:
        """Return the operand in another shape."""
        source = self.input
        if source is None or shape is None or any(size < 0 for size in shape):
            return None
        return Tensor(shape, source.graded and self.recorded, source.storage)

    def keep(self, what: Value | Tensor | None) -> None:
        """Note that the operation keeps a tensor for its backward pass, where it has one."""
        if not self.recorded:
            return
        held = what if isinstance(what, Tensor) else self.forward.tensor(what)
        width = computed_in(self.name) if self.forward.casts else None
        if width is None or held is None or held.storage.width == width or not held.storage.own:
            self.forward.keep(what)
        else:  # autocast makes a copy of it in the type in which is computed, and that is kept
            self.forward.keep_more(held.elements * width, self.value.context)

    def keep_factors(self, values: Sequence[Value], left: Tensor, right: Tensor) -> None:
        """Note that a product keeps each factor that the other one's gradient needs."""
        if right.graded:
            self.keep(values[0])
        if left.graded:
            self.keep(values[1])

    def keep_more(self, elements: float) -> None:
        """Note what it keeps beside tensors of the script, in elements of four bytes."""
        if self.recorded:
            self.forward.keep_more(elements, self.value.context)


def rule(*names: str) -> Callable[[Callable[[Operation], Result]], Callable[[Operation], Result]]:
    """Enter a function into the table, under the names of operations that it holds for."""

    def enter(function: Callable[[Operation], Result]) -> Callable[[Operation], Result]:
        for name in names:
            RULES[name] = function
        return function

    return enter


def axis(dim: int, rank: int) -> int | None:
    """Return a dimension counted from the front, or None where there is no such."""
    at = dim + rank if dim < 0 else dim
    return at if 0 <= at < rank else None
