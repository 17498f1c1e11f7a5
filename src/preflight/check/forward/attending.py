"""Layers of ``torch.nn`` that attend: what their parts keep, added up."""

from __future__ import annotations

from preflight.check.forward.operation import MASK, Operation, rule
from preflight.check.forward.tensors import Result
from preflight.source.values import Obj, plain, settle


def _rate(layer: Obj, position: int, default: float) -> float:
    found = plain(layer.argument(position, "dropout"), default)
    return float(found) if isinstance(found, (int, float)) else default


@rule("nn.MultiheadAttention")
def attention(one: Operation) -> Result:
    """Three products, an attention and a product.

    Asked for its weights (as it is by default), it writes the matrix of scores and keeps it as softmax gives it.
    """
    values = one.value.args[:3]
    queries = one.input
    keys = one.forward.tensor(values[1]) if len(values) > 1 else None
    heads, width = one.number(1, "num_heads"), one.number(0, "embed_dim")
    if (
        queries is None
        or keys is None
        or heads is None
        or width is None
        or len(queries.shape) != 3
        or one.layer is None
    ):
        return None
    batch_first = plain(one.layer.kwargs.get("batch_first"), False) is True
    samples, length = queries.shape[0 if batch_first else 1], queries.shape[1 if batch_first else 0]
    if batch_first and samples > 1:
        # The samples are turned behind the tokens, and a product writes what was turned again: copies are kept.
        distinct = {id(tensor): tensor for value in values if (tensor := one.forward.tensor(value)) is not None}
        one.keep_more(sum(tensor.elements for tensor in distinct.values()))
    else:
        for value in values:
            one.keep(value)
    others = keys.shape[1 if batch_first else 0]
    weighed = plain(one.value.kwargs.get("need_weights"), True) is not False
    one.keep_more(_attended(samples, length, others, width, heads, weighed, _rate(one.layer, 2, 0.0)))
    out = one.makes(queries.shape, graded=True)
    return out, one.makes((samples, length, others), graded=True) if weighed else None


def _attended(samples: int, length: int, others: int, width: int, heads: int, written: bool, rate: float) -> float:
    """Queries, keys and values as they were projected, and what the last product is given; a matrix where it is written."""
    kept = float(samples * width * (2 * length + 2 * others))
    matrix = float(samples * heads * length * others)
    if written:
        kept += samples * length * width + matrix * (1 + ((1 + MASK) if rate else 0))
    else:
        kept += samples * heads * length  # a sum of every row
    return kept


def _block(one: Operation, layer: Obj, samples: int, length: int, others: int | None) -> float | None:
    """What one encoder layer keeps, or with ``others`` a decoder layer that attends to as many other tokens too."""
    width, heads = plain(layer.argument(0, "d_model")), plain(layer.argument(1, "nhead"))
    inner = plain(layer.argument(2, "dim_feedforward"), 2048)
    if not isinstance(width, int) or not isinstance(heads, int) or not isinstance(inner, int):
        return None
    rate = _rate(layer, 3, 0.1)
    mask = MASK if rate else 0.0
    attentions = 1 if others is None else 2
    rows = samples * length
    kept: float = float(_attended(samples, length, length, width, heads, False, rate))
    if others is not None:
        kept += _attended(samples, length, others, width, heads, False, rate)
    # For every part: what it is given, the sum that the norm behind it is given, and a mask.
    kept += (attentions + 1) * rows * width * (2 + mask)
    activation = plain(layer.argument(4, "activation"), "relu")
    # Between the two products: the result (of relu) or the input (of gelu) beside what the second product is given.
    kept += rows * inner * ((1 if activation == "relu" and not rate else 2) + mask)
    return kept


@rule("nn.TransformerEncoderLayer", "nn.TransformerEncoder", "nn.TransformerDecoderLayer", "nn.TransformerDecoder")
def block(one: Operation) -> Result:
    """Layers of one kind, one or several."""
    source, layer = one.input, one.layer
    if source is None or layer is None or len(source.shape) != 3:
        return None
    count = 1
    if not one.name.endswith("Layer"):
        inner = layer.argument(0, "encoder_layer") or layer.argument(0, "decoder_layer")
        number = one.number(1, "num_layers")
        found = settle(inner) if inner is not None else None
        if number is None or not isinstance(found, Obj):
            return None
        layer, count = found, number
    batch_first = plain(layer.kwargs.get("batch_first"), False) is True
    samples, length = source.shape[0 if batch_first else 1], source.shape[1 if batch_first else 0]
    others: int | None = None
    if "Decoder" in one.name:
        memory = one.forward.tensor(one.value.argument(1, "memory"))
        if memory is None:
            return None
        others = memory.shape[1 if batch_first else 0]
    kept = _block(one, layer, samples, length, others)
    if kept is None:
        return None
    one.keep_more(kept * count)
    out = one.makes(source.shape, graded=True)
    one.keep(out)
    return out
