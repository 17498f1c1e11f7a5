"""Sums, means, extremes and losses."""

from __future__ import annotations

from preflight.check.forward.operation import Operation, axis, rule
from preflight.check.forward.tensors import Result, Shape
from preflight.source.tensor_shapes import broadcast
from preflight.source.values import Known, settle


def _reduced(one: Operation, position: int = 0) -> Shape | None:
    source, given = one.input, one.option(position, "dim")
    if source is None:
        return None
    if given is None or (isinstance(found := settle(given), Known) and found.value is None):
        return ()
    single = one.forward.size(given)
    dims = [single] if single is not None else one.forward.numbers([given])
    if dims is None:
        return None
    places = {axis(dim, len(source.shape)) for dim in dims}
    if None in places:
        return None
    if one.flag(position + 1, "keepdim"):
        return tuple(1 if place in places else size for place, size in enumerate(source.shape))
    return tuple(size for place, size in enumerate(source.shape) if place not in places)


@rule("sum", "mean", "nansum", "nanmean")
def total(one: Operation) -> Result:
    """Only sizes are kept."""
    return one.makes(_reduced(one))


@rule("var", "std", "prod", "logsumexp", "amax", "amin", "norm", "var_mean", "std_mean")
def spread(one: Operation) -> Result:
    """The input is kept."""
    shape = _reduced(one, 1 if one.name == "norm" else 0)
    source = one.input
    if shape is None or source is None:
        return None
    if source.graded:
        one.keep(one.first)
    out = one.makes(shape)
    return (out, one.makes(shape)) if one.name.endswith("_mean") else out


@rule("max", "min", "median", "topk", "kthvalue")
def extreme(one: Operation) -> Result:
    """Where it was found is kept: eight bytes each."""
    source = one.input
    if source is None or len(one.operands()) > 1 and one.forward.tensor(one.operands()[1]) is not None:
        return None
    if one.name == "topk":
        count, dim = one.number(0, "k"), one.number(1, "dim", -1)
        at = axis(dim, len(source.shape)) if dim is not None else None
        if count is None or at is None:
            return None
        shape: Shape | None = (*source.shape[:at], count, *source.shape[at + 1 :])
    else:
        shape = _reduced(one)
    out = one.makes(shape)
    if out is None or not out.shape and one.option(0, "dim") is None:
        return out
    one.keep_more(2.0 * out.elements if out.graded else 0.0)
    return out, one.makes(shape, graded=False)


@rule("argmax", "argmin", "argsort", "any", "all", "count_nonzero")
def found_at(one: Operation) -> Result:
    """Indices, to which no gradient flows."""
    source = one.input
    if one.name == "argsort":
        return one.makes(source.shape, graded=False) if source is not None else None
    return one.makes(_reduced(one), graded=False)


@rule("cross_entropy", "nll_loss", "loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
      "smooth_l1_loss", "kl_div", "huber_loss", "cosine_similarity", "cosine_embedding_loss")  # fmt: skip
def loss(one: Operation) -> Result:
    """A number; what cross entropy keeps is counted with the loss, others keep what they compare."""
    operands = [one.forward.tensor(value) for value in one.value.args[:2]]
    source = operands[0] if operands else None
    if source is None:
        return None
    entropy = one.name == "cross_entropy" or (one.layer is not None and one.layer.name.endswith(".CrossEntropyLoss"))
    if source.graded and one.recorded:
        one.forward.give_loss(source, entropy, one.value.context)
        for value in () if entropy else one.value.args[:2]:
            one.keep(value)
    if one.name == "cosine_similarity":
        other = operands[1] if len(operands) > 1 else None
        shape = broadcast(source.shape, other.shape) if other is not None else None
        return one.makes(shape[:1]) if shape is not None and len(shape) == 2 else None
    return one.makes(())
