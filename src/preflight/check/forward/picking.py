"""Elements picked by indices, put by indices, or laid out in patches; and products over pairs of rows."""

from __future__ import annotations

import math

from preflight.check.forward.operation import Operation, axis, rule
from preflight.check.forward.tensors import Result, Tensor
from preflight.check.queries.tensors import is_method

_INDEX = 2.0
"""An index of eight bytes, in elements of four bytes."""


def _second(one: Operation, position: int, keyword: str) -> Tensor | None:
    given = one.option(position, keyword)
    return one.forward.tensor(given) if given is not None else None


@rule("gather", "take_along_dim")
def gather(one: Operation) -> Result:
    """One element for each index; the indices are kept, and the whole input for its shape."""
    source = one.input
    places = _second(one, 0, "indices") if one.name == "take_along_dim" else _second(one, 1, "index")
    if source is None or places is None:
        return None
    if source.graded:
        one.keep(one.first)
        one.keep_more(_INDEX * places.elements)
    return one.makes(places.shape)


@rule("index_select")
def rows(one: Operation) -> Result:
    """Whole rows along a dimension; the indices are kept."""
    source, places, dim = one.input, _second(one, 1, "index"), one.number(0, "dim")
    at = axis(dim, len(source.shape)) if source is not None and dim is not None else None
    if source is None or places is None or at is None or len(places.shape) > 1:
        return None
    if source.graded:
        one.keep_more(_INDEX * places.elements)
    return one.makes((*source.shape[:at], places.elements, *source.shape[at + 1 :]))


@rule("scatter", "scatter_add", "index_add", "index_copy", "scatter_", "scatter_add_", "index_add_", "index_copy_")
def put(one: Operation) -> Result:
    """Elements put at indices; the indices are kept."""
    source, places = one.input, _second(one, 1, "index")
    if source is None or places is None:
        return None
    given = _second(one, 2, "source" if one.name.startswith("index") else "src")
    graded = source.graded or (given is not None and given.graded)
    if graded:
        one.keep_more(_INDEX * places.elements)
    if one.name.endswith("_"):
        return Tensor(source.shape, graded and one.recorded, source.storage)
    return one.makes(source.shape, graded=graded)


@rule("unfold")
def patches(one: Operation) -> Result:
    """Of a tensor: a view of windows along a dimension. As a function: the patches of images as columns, written out."""
    source = one.input
    if source is None:
        return None
    if is_method(one.value):
        dim, size, step = one.number(0, "dimension"), one.number(1, "size"), one.number(2, "step")
        at = axis(dim, len(source.shape)) if dim is not None else None
        if at is None or not size or not step or source.shape[at] < size:
            return None
        return one.views((*source.shape[:at], (source.shape[at] - size) // step + 1, *source.shape[at + 1 :], size))
    return _columns(one, source)


@rule("nn.Unfold")
def unfolded(one: Operation) -> Result:
    """The patches of images as columns: nothing is kept."""
    return _columns(one, one.input) if one.input is not None else None


def _pair(one: Operation, position: int, name: str, default: int | None) -> tuple[int, int] | None:
    given = one.option(position, name)
    if given is None:
        return (default, default) if default is not None else None
    size = one.forward.size(given)
    if size is not None:
        return size, size
    listed = one.forward.numbers([given])
    return (listed[0], listed[1]) if listed is not None and len(listed) == 2 else None


def _columns(one: Operation, source: Tensor) -> Result:
    kernel, gap = _pair(one, 0, "kernel_size", None), _pair(one, 1, "dilation", 1)
    pad, step = _pair(one, 2, "padding", 0), _pair(one, 3, "stride", 1)
    if len(source.shape) != 4 or kernel is None or gap is None or pad is None or step is None or 0 in step:
        return None
    sides = zip(source.shape[2:], kernel, gap, pad, step, strict=True)
    count = math.prod((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, d, p, s in sides)
    return one.makes((source.shape[0], source.shape[1] * kernel[0] * kernel[1], count)) if count > 0 else None


@rule("fold", "nn.Fold")
def folded(one: Operation) -> Result:
    """Columns added up to images again: nothing is kept."""
    source, size, kernel = one.input, _pair(one, 0, "output_size", None), _pair(one, 1, "kernel_size", None)
    if source is None or size is None or kernel is None or len(source.shape) != 3 or 0 in kernel:
        return None
    return one.makes((source.shape[0], source.shape[1] // (kernel[0] * kernel[1]), *size))


@rule("glu", "nn.GLU")
def gated(one: Operation) -> Result:
    """One half times the sigmoid of the other: the input is kept."""
    source, dim = one.input, one.number(0, "dim", -1)
    at = axis(dim, len(source.shape)) if source is not None and dim is not None else None
    if source is None or at is None:
        return None
    if source.graded:
        one.keep(one.first)
    return one.makes((*source.shape[:at], source.shape[at] // 2, *source.shape[at + 1 :]))


@rule("addmm", "baddbmm", "addbmm")
def product_and_sum(one: Operation) -> Result:
    """A product of the second and the third, added to the first: each factor is kept for the gradient of the other."""
    values = one.operands()[:3]
    tensors = [one.forward.tensor(value) for value in values]
    if len(tensors) != 3 or tensors[1] is None or tensors[2] is None:
        return None
    left, right = tensors[1], tensors[2]
    one.keep_factors(values[1:], left, right)
    graded = left.graded or right.graded or (tensors[0] is not None and tensors[0].graded)
    front = () if one.name == "addbmm" else left.shape[:-2]
    return one.makes((*front, left.shape[-2], right.shape[-1]), graded=graded)


@rule("cdist")
def distances(one: Operation) -> Result:
    """The distance of every row of one to every row of another: both and the result are kept."""
    values = one.operands()[:2]
    first, second = (one.forward.tensor(value) for value in values) if len(values) == 2 else (None, None)
    if first is None or second is None:
        return None
    graded = first.graded or second.graded
    out = one.makes((*first.shape[:-1], second.shape[-2]), graded=graded)
    for kept in (*values, out) if graded else ():
        one.keep(kept)
    return out


@rule("outer", "ger")
def outer(one: Operation) -> Result:
    """Every element of one times every element of another."""
    values = one.operands()[:2]
    first, second = (one.forward.tensor(value) for value in values) if len(values) == 2 else (None, None)
    if first is None or second is None:
        return None
    one.keep_factors(values, first, second)
    return one.makes((first.elements, second.elements), graded=first.graded or second.graded)


@rule("grid_sample")
def sampled(one: Operation) -> Result:
    """Pixels read at places between them: the image and the places are kept."""
    source, places = one.input, _second(one, 0, "grid")
    if source is None or places is None or len(source.shape) != len(places.shape):
        return None
    graded = source.graded or places.graded
    if graded:
        one.keep(one.first)
        one.keep(places)
    return one.makes((*source.shape[:2], *places.shape[1:-1]), graded=graded)
