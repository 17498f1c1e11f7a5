"""The exact number of parameters of each layer of ``torch.nn``, from its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from preflight.source.values import Obj, Value, plain

_MISSING: Any = object()


class _Unclear(Exception):
    """An argument that is not known."""


def _int(obj: Obj, position: int, name: str, default: Any = _MISSING) -> int:
    given = obj.argument(position, name)
    if given is None:
        if default is _MISSING or obj.open_args:
            raise _Unclear
        return int(default)
    value = plain(given, _MISSING)
    if value is None and default is not _MISSING:
        return int(default)
    if not isinstance(value, (int, float)) or value != int(value):
        raise _Unclear
    return int(value)


def _flag(obj: Obj, position: int, name: str, default: bool) -> bool:
    given = obj.argument(position, name)
    if given is None:
        if obj.open_args:
            raise _Unclear
        return default
    value = plain(given, _MISSING)
    if value is _MISSING:
        raise _Unclear
    return bool(value)


def _product(value: Value | None, count: int, default: Any = _MISSING) -> int:
    """The product of a size given as one number for all dimensions or as one for each."""
    if value is None:
        if default is _MISSING:
            raise _Unclear
        return int(int(default) ** count)
    size = plain(value, _MISSING)
    if isinstance(size, int):
        return int(size**count)
    if isinstance(size, (list, tuple)) and all(isinstance(s, int) for s in size):
        if len(size) == 1:
            return int(size[0] ** count)
        return math.prod(int(s) for s in size)
    raise _Unclear


def _linear(o: Obj) -> int:
    into, out = _int(o, 0, "in_features"), _int(o, 1, "out_features")
    return into * out + (out if _flag(o, 2, "bias", True) else 0)


def _conv(dimensions: int) -> Callable[[Obj], int]:
    def size(o: Obj) -> int:
        into, out = _int(o, 0, "in_channels"), _int(o, 1, "out_channels")
        kernel = _product(o.argument(2, "kernel_size"), dimensions)
        # Groups are the argument 6 and bias 7, behind dilation, or behind the output_padding of a transposed one.
        groups = _int(o, 6, "groups", 1)
        bias = out if _flag(o, 7, "bias", True) else 0
        return out * into // groups * kernel + bias

    return size


def _embedding(o: Obj) -> int:
    return _int(o, 0, "num_embeddings") * _int(o, 1, "embedding_dim")


def _layer_norm(o: Obj) -> int:
    if not _flag(o, 2, "elementwise_affine", True):
        return 0
    size = _product(o.argument(0, "normalized_shape"), 1)
    return size * (2 if _flag(o, 3, "bias", True) else 1)


def _rms_norm(o: Obj) -> int:
    return _product(o.argument(0, "normalized_shape"), 1) if _flag(o, 2, "elementwise_affine", True) else 0


def _batch_norm(affine: bool) -> Callable[[Obj], int]:
    # num_features 0, eps 1, momentum 2, affine 3
    return lambda o: 2 * _int(o, 0, "num_features") if _flag(o, 3, "affine", affine) else 0


def _group_norm(o: Obj) -> int:
    return 2 * _int(o, 1, "num_channels") if _flag(o, 3, "affine", True) else 0


def _recurrent(gates: int) -> Callable[[Obj], int]:
    def size(o: Obj) -> int:
        into, hidden = _int(o, 0, "input_size"), _int(o, 1, "hidden_size")
        layers = _int(o, 2, "num_layers", 1)
        # RNN's fourth argument is the non-linearity: what follows stands one place later.
        later = 1 if gates == 1 else 0
        bias = _flag(o, 3 + later, "bias", True)
        directions = 2 if _flag(o, 6 + later, "bidirectional", False) else 1
        projected = _int(o, 7, "proj_size", 0) if gates == 4 else 0
        state = projected or hidden
        total = 0
        for layer in range(layers):
            width = into if layer == 0 else state * directions
            one = gates * hidden * (width + state) + (2 * gates * hidden if bias else 0)
            total += directions * (one + (projected * hidden if projected else 0))
        return total

    return size


def _cell(gates: int) -> Callable[[Obj], int]:
    def size(o: Obj) -> int:
        into, hidden = _int(o, 0, "input_size"), _int(o, 1, "hidden_size")
        return gates * hidden * (into + hidden) + (2 * gates * hidden if _flag(o, 2, "bias", True) else 0)

    return size


def attention_size(
    width: int, bias: bool = True, key: int | None = None, value: int | None = None, bias_kv: bool = False
) -> int:
    """Parameters of ``MultiheadAttention``: three input projections and one output projection."""
    projections = width * width + width * (key or width) + width * (value or width)
    total = projections + width * width + (4 * width if bias else 0)
    return total + (2 * width if bias_kv else 0)


def _attention(o: Obj) -> int:
    width = _int(o, 0, "embed_dim")
    # num_heads 1, dropout 2, bias 3, add_bias_kv 4, add_zero_attn 5, kdim 6, vdim 7
    return attention_size(
        width,
        _flag(o, 3, "bias", True),
        _int(o, 6, "kdim", width),
        _int(o, 7, "vdim", width),
        _flag(o, 4, "add_bias_kv", False),
    )


def _block(width: int, inner: int, attentions: int, bias: bool) -> int:
    feed = 2 * width * inner + ((inner + width) if bias else 0)
    norms = (attentions + 1) * width * (2 if bias else 1)
    return attentions * attention_size(width, bias) + feed + norms


def _encoder_layer(attentions: int) -> Callable[[Obj], int]:
    def size(o: Obj) -> int:
        # d_model 0, nhead 1, dim_feedforward 2, ..., bias is keyword 8
        return _block(_int(o, 0, "d_model"), _int(o, 2, "dim_feedforward", 2048), attentions, _flag(o, 8, "bias", True))

    return size


def _transformer(o: Obj) -> int:
    width, inner = _int(o, 0, "d_model", 512), _int(o, 4, "dim_feedforward", 2048)
    encoder, decoder = _int(o, 2, "num_encoder_layers", 6), _int(o, 3, "num_decoder_layers", 6)
    if "custom_encoder" in o.kwargs or "custom_decoder" in o.kwargs:
        raise _Unclear
    bias = _flag(o, 12, "bias", True)
    norms = 2 * width * (2 if bias else 1)
    return encoder * _block(width, inner, 1, bias) + decoder * _block(width, inner, 2, bias) + norms


def _bilinear(o: Obj) -> int:
    out = _int(o, 2, "out_features")
    return _int(o, 0, "in1_features") * _int(o, 1, "in2_features") * out + (out if _flag(o, 3, "bias", True) else 0)


def _adaptive_softmax(o: Obj) -> int:
    # in_features 0, n_classes 1, cutoffs 2, div_value 3, head_bias 4: a head over the frequent classes and the clusters, and
    # for each cluster two matrices through a width that falls by div_value.
    into, classes, ratio = _int(o, 0, "in_features"), _int(o, 1, "n_classes"), o.argument(3, "div_value")
    cuts, divided = plain(o.argument(2, "cutoffs"), _MISSING), plain(ratio, _MISSING) if ratio is not None else 4.0
    if not isinstance(cuts, (list, tuple)) or not cuts or not all(isinstance(cut, int) for cut in cuts):
        raise _Unclear
    if not isinstance(divided, (int, float)) or divided <= 0:
        raise _Unclear
    head = int(cuts[0]) + len(cuts)
    total = into * head + (head if _flag(o, 4, "head_bias", False) else 0)
    for place, (first, last) in enumerate(zip(cuts, (*cuts[1:], classes), strict=True)):
        inner = int(into // divided ** (place + 1))
        total += into * inner + inner * int(last - first)
    return total


def _safe(size: Callable[[Obj], int]) -> Callable[[Obj], int | None]:
    def guarded(o: Obj) -> int | None:
        try:
            return size(o)
        except (_Unclear, ZeroDivisionError, OverflowError):
            return None

    return guarded


SIZES: dict[str, Callable[[Obj], int | None]] = {
    "torch.nn." + name: _safe(size)
    for name, size in {
        "Linear": _linear,
        "Embedding": _embedding,
        "EmbeddingBag": _embedding,
        "LayerNorm": _layer_norm,
        "RMSNorm": _rms_norm,
        "GroupNorm": _group_norm,
        "AdaptiveLogSoftmaxWithLoss": _adaptive_softmax,
        "Bilinear": _bilinear,
        "MultiheadAttention": _attention,
        "TransformerEncoderLayer": _encoder_layer(1),
        "TransformerDecoderLayer": _encoder_layer(2),
        "Transformer": _transformer,
        "LSTM": _recurrent(4),
        "GRU": _recurrent(3),
        "RNN": _recurrent(1),
        "LSTMCell": _cell(4),
        "GRUCell": _cell(3),
        "RNNCell": _cell(1),
        "PReLU": lambda o: _int(o, 0, "num_parameters", 1),
        **{f"Conv{d}d": _conv(d) for d in (1, 2, 3)},
        **{f"ConvTranspose{d}d": _conv(d) for d in (1, 2, 3)},
        **{f"BatchNorm{d}d": _batch_norm(True) for d in (1, 2, 3)},
        **{f"InstanceNorm{d}d": _batch_norm(False) for d in (1, 2, 3)},
        "SyncBatchNorm": _batch_norm(True),
    }.items()
}

WITHOUT_PARAMETERS = frozenset(
    "torch.nn." + name
    for name in (
        "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softmax Softmax2d LogSoftmax Softplus Softsign Softmin "
        "Hardtanh Hardswish Hardsigmoid Hardshrink Softshrink Tanhshrink Threshold GLU RReLU LogSigmoid Identity Flatten "
        "Unflatten Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout Upsample UpsamplingBilinear2d "
        "UpsamplingNearest2d PixelShuffle PixelUnshuffle Fold Unfold ZeroPad2d ConstantPad1d ConstantPad2d ReflectionPad1d "
        "ReflectionPad2d ReplicationPad1d ReplicationPad2d CircularPad2d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d "
        "AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d LPPool2d "
        "MaxUnpool2d FractionalMaxPool2d LocalResponseNorm ChannelShuffle CosineSimilarity PairwiseDistance"
    ).split()
) | {"einops.layers.torch.Rearrange", "einops.layers.torch.Reduce"}
_BUFFERS_ALONE = ("torchaudio.transforms.", "torchvision.transforms.", "kornia.augmentation.")
"""Packages whose modules change what they are given and train nothing."""


def has_no_parameters(name: str) -> bool:
    """Whether a layer of a library has nothing to train."""
    return name in WITHOUT_PARAMETERS or name.startswith(_BUFFERS_ALONE)
