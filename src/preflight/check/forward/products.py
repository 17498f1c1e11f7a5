"""Products of matrices: each factor is kept for the gradient of the other."""

from __future__ import annotations

import math

from preflight.check.forward.operation import Operation, rule
from preflight.check.forward.tensors import Misfit, Result
from preflight.source.tensor_shapes import broadcast
from preflight.source.values import plain


@rule("nn.Linear")
def linear_layer(one: Operation) -> Result:
    """X W + b: the input is kept for the gradient of W."""
    source, columns = one.input, one.number(1, "out_features")
    rows = one.number(0, "in_features")
    if source is None or columns is None:
        return None
    if rows is not None and source.shape[-1:] != (rows,):
        one.forward.misfit = one.forward.misfit or Misfit(one.value, source.shape, -1, rows)
        return None
    if one.learns:
        one.keep(one.first)
    return one.makes((*source.shape[:-1], columns), graded=True)


@rule("linear")
def linear(one: Operation) -> Result:
    """The same with a given matrix."""
    source, matrix = one.input, one.forward.tensor(one.option(0, "weight"))
    if source is None or matrix is None or len(matrix.shape) != 2 or source.shape[-1] != matrix.shape[1]:
        return None
    if matrix.graded:
        one.keep(one.first)
    return one.makes((*source.shape[:-1], matrix.shape[0]), graded=source.graded or matrix.graded)


@rule("nn.Bilinear")
def bilinear(one: Operation) -> Result:
    """Both inputs are kept."""
    source, columns = one.input, one.number(2, "out_features")
    if source is None or columns is None:
        return None
    for value in one.value.args[:2]:
        one.keep(value)
    return one.makes((*source.shape[:-1], columns), graded=True)


@rule("@", "matmul", "bmm", "mm", "mv", "dot")
def matmul(one: Operation) -> Result:
    """Rows times columns, over dimensions in front that are spread to each other."""
    values = one.operands()[:2]
    tensors = [one.forward.tensor(value) for value in values]
    if len(tensors) != 2 or tensors[0] is None or tensors[1] is None:
        return None
    left, right = tensors[0], tensors[1]
    one.keep_factors(values, left, right)
    graded = left.graded or right.graded
    if len(right.shape) == 1:
        return one.makes(left.shape[:-1], graded) if left.shape[-1:] == right.shape else None
    if len(left.shape) == 1:
        return one.makes((*right.shape[:-2], right.shape[-1]), graded)
    front = broadcast(left.shape[:-2], right.shape[:-2]) if len(left.shape) > 2 or len(right.shape) > 2 else ()
    if front is None or left.shape[-1] != right.shape[-2]:
        return None
    return one.makes((*front, left.shape[-2], right.shape[-1]), graded)


@rule("einsum")
def einsum(one: Operation) -> Result:
    """A product whose sum is written in letters."""
    text = plain(one.value.args[0]) if one.value.args else None
    values = list(one.value.args[1:])
    tensors = [one.forward.tensor(value) for value in values]
    if not isinstance(text, str) or "->" not in text or "." in text or any(tensor is None for tensor in tensors):
        return None
    before, _, after = text.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for letters, tensor in zip(before.split(","), tensors, strict=False):
        if tensor is None or len(letters) != len(tensor.shape):
            return None
        sizes |= dict(zip(letters, tensor.shape, strict=True))
    found = [tensor for tensor in tensors if tensor is not None]
    if len(found) == 2:
        one.keep_factors(values, found[0], found[1])
    elif any(tensor.graded for tensor in found):
        for value in values:
            one.keep(value)
    if any(letter not in sizes for letter in after):
        return None
    return one.makes(tuple(sizes[letter] for letter in after), graded=any(tensor.graded for tensor in found))


@rule("nn.Embedding", "nn.EmbeddingBag")
def table(one: Operation) -> Result:
    """Rows of a table: the indices are kept, eight bytes each."""
    source, width = one.input, one.number(1, "embedding_dim")
    if source is None or width is None:
        return None
    if source.storage.own and not source.storage.kept:
        source.storage.elements = 2.0 * source.storage.elements  # int64
    one.keep(one.first)
    if one.name == "nn.EmbeddingBag":
        return one.makes((source.shape[0], width), graded=True) if len(source.shape) == 2 else None
    return one.makes((*source.shape, width), graded=True)


@rule("embedding")
def lookup(one: Operation) -> Result:
    """The same with a given table."""
    source, matrix = one.input, one.forward.tensor(one.option(0, "weight"))
    if source is None or matrix is None:
        return None
    one.keep_more(2.0 * source.elements)
    return one.makes((*source.shape, matrix.shape[-1]), graded=matrix.graded)


@rule("one_hot")
def one_hot(one: Operation) -> Result:
    """A row of zeros with a one for every index."""
    source, classes = one.input, one.number(0, "num_classes")
    return one.makes((*source.shape, classes), graded=False) if source is not None and classes else None


@rule("scaled_dot_product_attention")
def attention(one: Operation) -> Result:
    """Queries, keys, values, the result and a sum of every row are kept: a fused kernel writes no matrix."""
    values = one.operands()[:3]
    tensors = [one.forward.tensor(value) for value in values]
    if len(tensors) != 3 or any(tensor is None for tensor in tensors):
        return None
    queries, keys, held = tensors
    assert queries is not None
    assert keys is not None
    assert held is not None
    if queries.shape[-1] != keys.shape[-1] or keys.shape[-2:-1] != held.shape[-2:-1]:
        return None
    # With grouped queries, there are fewer heads of keys than of queries.
    heads = -3 if plain(one.value.kwargs.get("enable_gqa"), False) is not False else -2
    if broadcast(queries.shape[:heads], keys.shape[:heads], held.shape[:heads]) is None:
        return None
    if not any(tensor is not None and tensor.graded for tensor in tensors):
        return one.makes((*queries.shape[:-1], held.shape[-1]), graded=False)
    for value in values:
        one.keep(value)
    out = one.makes((*queries.shape[:-1], held.shape[-1]), graded=True)
    one.keep(out)
    one.keep_more(math.prod(queries.shape[:-1]))
    return out
