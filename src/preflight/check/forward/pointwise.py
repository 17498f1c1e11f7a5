"""Operations on every element by itself, and on pairs of elements.

What is kept follows ``tools/autograd/derivatives.yaml`` of PyTorch: some formulas use the result, some the input.
"""

from __future__ import annotations

from preflight.check.forward.operation import MASK, Operation, rule
from preflight.check.forward.tensors import Result, Tensor
from preflight.source.tensor_shapes import broadcast
from preflight.source.values import Known, Value, settle


def _in_place(one: Operation) -> bool:
    """Whether the result takes the operand's memory.

    Not so ReLU6, SiLU and others whose gradient is written with the input: in place, autograd keeps a copy of it.
    """
    if one.name in ("relu", "selu"):
        return one.flag(0, "inplace")
    if one.name in ("leaky_relu", "elu", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d"):
        return one.flag(1 if one.layer is not None or one.name in ("leaky_relu", "elu", "celu") else 2, "inplace")
    return False


def _same(one: Operation) -> Tensor | None:
    source = one.input
    if source is None:
        return None
    return one.views(source.shape) if _in_place(one) else one.makes(source.shape)


@rule("relu", "sigmoid", "tanh", "exp", "softmax", "log_softmax", "softmax2d", "sqrt", "rsqrt", "reciprocal", "softmin",
      "expm1", "relu_", "sigmoid_", "tanh_", "exp_", "sqrt_", "nn.Softmin")  # fmt: skip
def keeps_result(one: Operation) -> Result:
    """The gradient is written with the result."""
    out = one.views(one.input.shape) if one.name.endswith("_") and one.input is not None else _same(one)
    if out is not None and out.graded:
        one.keep(out)
    return out


@rule("gelu", "silu", "mish", "leaky_relu", "elu", "selu", "celu", "softplus", "logsigmoid", "relu6", "hardtanh", "prelu",
      "hardswish", "hardsigmoid", "nn.Hardswish", "nn.Hardsigmoid", "nn.Softsign", "nn.Softshrink", "nn.Hardshrink",
      "log", "log1p", "log2", "log10", "sin", "cos", "tan", "abs", "square", "clamp", "clip", "clamp_min", "clamp_max",
      "erf", "pow", "**", "asinh", "atan", "sign", "relu6_", "logit", "softsign", "rrelu", "nn.RReLU", "nn.Threshold",
      "threshold", "silu_", "nn.Tanhshrink", "tanhshrink", "softshrink", "hardshrink", "lgamma", "erfc", "sinc")  # fmt: skip
def keeps_input(one: Operation) -> Result:
    """The gradient is written with the input."""
    source = one.input
    if source is None:
        return None
    out = _same(one)
    if source.graded:
        one.keep(one.first)
    return out


@rule("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "nn.AlphaDropout")
def dropout(one: Operation) -> Result:
    """A mask of one byte an element is kept."""
    source = one.input
    if source is None:
        return None
    given = one.option(0, "p")
    rate = settle(given) if given is not None else Known(0.5)
    if isinstance(rate, Known) and rate.value == 0:
        return one.views(source.shape)
    if source.graded:
        whole = source.elements if one.name in ("dropout", "nn.AlphaDropout", "alpha_dropout") else 0
        one.keep_more(MASK * whole)
    return _same(one)


@rule("identity", "detach", "data", "requires_grad_", "cuda", "cpu", "type_as", "real")
def identity(one: Operation) -> Result:
    """The same memory."""
    source = one.input
    if source is None:
        return None
    cut = one.name in ("detach", "data")
    return Tensor(source.shape, source.graded and not cut, source.storage)


@rule("nn.Sequential")
def nothing_inside(one: Operation) -> Result:
    """A sequence of no layers; one with layers is followed through them."""
    source, layer = one.input, one.layer
    if source is None or layer is None or layer.args or layer.kwargs or layer.attrs or layer.open_args:
        return None
    return one.views(source.shape)


@rule("float", "half", "double", "bfloat16", "to", "type")
def cast(one: Operation) -> Result:
    """Tensors mostly have the type and the place already that they are moved to: the same memory."""
    return one.views(one.input.shape) if one.input is not None else None


@rule("clone", "neg", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like", "round", "floor",
      "ceil", "nan_to_num", "flip", "roll", "sort", "logical_not", "~", "not", "long", "int", "bool", "cumsum",
      "triu", "tril", "normal_", "uniform_", "zero_", "fill_", "bernoulli", "bernoulli_", "isnan", "isinf", "isfinite")  # fmt: skip
def another(one: Operation) -> Result:
    """A tensor of the same shape, for which nothing is kept."""
    source = one.input
    if source is None:
        return None
    cut = one.name.endswith("_like") or one.name in ("round", "floor", "ceil", "long", "int", "bool", "bernoulli")
    out = one.makes(source.shape, graded=False if cut else None)
    if one.name == "sort" and out is not None:
        one.keep_more(2.0 * source.elements if source.graded else 0.0)
        return out, one.makes(source.shape, graded=False)
    return out


@rule("masked_fill", "masked_fill_")
def masked_fill(one: Operation) -> Result:
    """The mask is kept: one byte an element, as large as it was given."""
    source, mask = one.input, one.forward.tensor(one.option(0, "mask"))
    if source is None:
        return None
    if source.graded:
        one.keep_more(MASK * (mask.elements if mask is not None else 0))
    return one.views(source.shape) if one.name.endswith("_") else one.makes(source.shape)


@rule("+", "-", "add", "sub", "rsub", "add_", "sub_", "maximum", "minimum", "where", "lerp", "logaddexp", "atan2",
      "*", "/", "mul", "div", "mul_", "div_")  # fmt: skip
def pair(one: Operation) -> Result:
    """Sums keep nothing; a product keeps each factor that the other one's gradient needs."""
    operands = one.operands()[1:] if one.name == "where" else one.operands()[:2]
    given = [one.forward.tensor(value) for value in operands]
    tensors = [tensor for tensor in given if tensor is not None]
    if not tensors or len(operands) < 2:
        return None
    for value, tensor in zip(operands, given, strict=True):
        if tensor is None and not _is_number(one, value):
            return None
    shape = broadcast(*(tensor.shape for tensor in tensors))
    if shape is None:
        return None
    first, second = given[0], given[1]
    if one.name.rstrip("_") in ("*", "mul", "/", "div") and first is not None and second is not None:
        one.keep_factors(operands, first, second)
    if one.name in ("maximum", "minimum", "logaddexp", "atan2"):
        for value in operands:
            one.keep(value)
    graded = any(tensor.graded for tensor in tensors)
    if one.name.endswith("_"):
        held = one.views(shape)
        return Tensor(held.shape, graded and one.recorded, held.storage) if held is not None else None
    return one.makes(shape, graded=graded)


@rule("==", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "&", "|", "and", "or")
def comparison(one: Operation) -> Result:
    """A truth for every element."""
    found = [one.forward.tensor(value) for value in one.operands()[:2]]
    tensors = [tensor for tensor in found if tensor is not None]
    shape = broadcast(*(tensor.shape for tensor in tensors)) if tensors else None
    return one.makes(shape, graded=False)


def _is_number(one: Operation, value: Value) -> bool:
    """Whether an operand is a number: known, computed from sizes, or a single value that gradients may flow to."""
    found = settle(value)
    if isinstance(found, Known):
        return isinstance(found.value, (int, float))
    return one.forward.size(found) is not None or (getattr(found, "name", None) or "").startswith("math.")
