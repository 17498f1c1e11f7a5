"""Tensors that a forward pass makes from numbers: no gradient flows to them."""

from __future__ import annotations

from preflight.check.forward.operation import Operation, rule
from preflight.check.forward.tensors import Result
from preflight.source.values import Known, Seq, settle


@rule("zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty")
def filled(one: Operation) -> Result:
    """A tensor of given sizes."""
    value = one.value
    given = list(value.args) or [v for v in (value.kwargs.get("size"), value.kwargs.get("shape")) if v is not None]
    sizes = one.forward.numbers(given) if given and not value.open_args else None
    return one.makes(tuple(sizes), graded=False) if sizes is not None else None


@rule("FloatTensor", "HalfTensor", "DoubleTensor", "LongTensor", "Tensor", "new")
def typed(one: Operation) -> Result:
    """A tensor by the name of its type: of given sizes, or of the numbers in a list."""
    given = list(one.value.args)
    if not given or one.value.open_args or (len(given) == 1 and isinstance(settle(given[0]), Seq)):
        return None
    sizes = one.forward.numbers(given)
    return one.makes(tuple(sizes), graded=False) if sizes is not None else None


@rule("full", "new_full", "normal")
def full(one: Operation) -> Result:
    """A tensor of sizes given as one sequence."""
    given = one.value.argument(0, "size")
    held = settle(given) if given is not None else None
    sizes = one.forward.numbers([held]) if isinstance(held, Seq) else None
    return one.makes(tuple(sizes), graded=False) if sizes is not None else None


@rule("randint")
def randint(one: Operation) -> Result:
    """Whole numbers: the sizes are the first sequence that is given."""
    held = next((v for v in map(settle, (*one.value.args, *one.value.kwargs.values())) if isinstance(v, Seq)), None)
    sizes = one.forward.numbers([held]) if held is not None else None
    return one.makes(tuple(sizes), graded=False) if sizes is not None else None


@rule("arange")
def arange(one: Operation) -> Result:
    """Numbers in order."""
    numbers = [one.forward.size(value) for value in one.value.args[:3]]
    if not numbers or any(number is None for number in numbers):
        return None
    bounds = [number for number in numbers if number is not None]
    if len(bounds) == 3 and bounds[2] == 0:
        return None
    return one.makes((len(range(*bounds)),), graded=False)


@rule("linspace")
def linspace(one: Operation) -> Result:
    """Numbers at equal distances."""
    count = one.number(1, "steps")
    return one.makes((count,), graded=False) if count is not None else None


@rule("eye")
def eye(one: Operation) -> Result:
    """A unit matrix."""
    side = one.forward.size(one.value.args[0]) if one.value.args else None
    return one.makes((side, side), graded=False) if side is not None else None


@rule("tensor", "as_tensor")
def written(one: Operation) -> Result:
    """A tensor that is written out as numbers."""
    shape: list[int] = []
    held = settle(one.value.args[0]) if one.value.args else None
    while isinstance(held, Seq) and held.items and not held.open:
        shape.append(len(held.items))
        held = settle(held.items[0])
    return one.makes(tuple(shape), graded=False) if isinstance(held, Known) else None
