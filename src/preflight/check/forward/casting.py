"""What autocast does to the types of a forward pass: products in half precision, sensitive functions in fp32.

The lists are those of CUDA in PyTorch's documentation ("Automatic Mixed Precision package", CUDA Ops that Autocast). An
operation of neither list takes the widest type that it is given. Widths are counted in units of half precision.
"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.check.forward.tensors import Tensor

NARROW, WIDE = 1.0, 2.0
_HALF = frozenset(
    "nn.Linear linear nn.Bilinear @ matmul bmm mm mv dot einsum addmm addbmm baddbmm addmv addr prelu nn.PReLU"
    " scaled_dot_product_attention nn.MultiheadAttention nn.LSTM nn.GRU nn.RNN nn.LSTMCell nn.GRUCell nn.RNNCell".split()
) | {f"{kind}{n}d" for kind in ("nn.Conv", "nn.ConvTranspose", "conv", "conv_transpose") for n in (1, 2, 3)}
_FULL = frozenset(
    "softmax log_softmax softmin nn.Softmin softplus exp expm1 log log10 log2 log1p pow ** rsqrt reciprocal asin acos cosh"
    " sinh tan cumsum cumprod prod sum norm cdist erfinv nn.GroupNorm group_norm nn.LayerNorm layer_norm renorm"
    " cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss kl_div huber_loss cosine_similarity cosine_embedding_loss"
    " binary_cross_entropy_with_logits loss nn.Embedding nn.EmbeddingBag embedding".split()
)


def computed_in(name: str) -> float | None:
    """Return the width in which autocast lets an operation compute; None where that follows what it is given."""
    return NARROW if name in _HALF else WIDE if name in _FULL else None


def width_of(name: str, given: Iterable[Tensor | None]) -> float:
    """Return the width of what an operation makes of tensors; what is made of none is in fp32."""
    fixed = computed_in(name)
    return fixed if fixed is not None else max((one.storage.width for one in given if one is not None), default=WIDE)
