"""The architecture that a size alone stands for."""

from __future__ import annotations

import msgspec

from preflight.cost.parameters import count_parameters
from preflight.errors import UsageError
from preflight.vocabulary.model import ModelSpec

# Layers and widths of published decoders of each size: LLaMA 1 and 2 (arXiv 2302.13971, 2307.09288), below them GPT-2's and
# OPT's sizes, above them BLOOM-176B's and GPT-3's depth: the ratio of width to depth grows with the size.
_LADDER = (
    (6, 512), (12, 768), (16, 1024), (24, 1024), (24, 1536), (24, 2048), (28, 2560), (32, 3072), (32, 4096), (36, 4608),
    (40, 5120), (48, 6144), (60, 6656), (72, 7168), (80, 8192), (96, 9216), (96, 10240), (96, 12288), (105, 16384),
    (118, 18432), (126, 20480), (128, 25600),
)  # fmt: skip
_VOCABULARY = 32000
_MULTIPLE = 256
LARGEST = 2_000.0


def decoder_of(billions: float) -> ModelSpec:
    """Return a decoder of Llama's form with this many parameters: the nearest published shape, its total as given.

    Raises:
        UsageError: The size is not positive, or beyond anything that formulas were held against.
    """
    if not 0 < billions <= LARGEST:
        raise UsageError(f"a model of {billions:g} billion parameters", f"more than 0 and at most {LARGEST:g}")
    shapes = [_llama(layers, hidden) for layers, hidden in _LADDER]
    totals = [count.total if (count := count_parameters(shape)) else 0.0 for shape in shapes]
    wanted = billions * 1e9
    at = min(range(len(shapes)), key=lambda index: abs(totals[index] / wanted - 1))
    return msgspec.structs.replace(shapes[at], parameters=round(wanted))


def _llama(layers: int, hidden: int) -> ModelSpec:
    """Return a block of Llama's form: SwiGLU of 8/3 the width, heads of 128 (64 below 1024)."""
    ffn = -(-8 * hidden // 3 // _MULTIPLE) * _MULTIPLE
    return ModelSpec(
        family="transformer_decoder", layers=layers, hidden=hidden, heads=hidden // (128 if hidden >= 1024 else 64), ffn=ffn,
        gated=True, activation="silu", norm="rmsnorm", bias=False, vocab=_VOCABULARY, tied_embeddings=False,
    )  # fmt: skip


def in_words(model: ModelSpec) -> str:
    """Return the architecture in one line."""
    parts = [f"{model.layers} layers", f"hidden {model.hidden}", f"{model.heads} heads"]
    if model.kv_heads and model.kv_heads != model.heads:
        parts.append(f"{model.kv_heads} key-value heads")
    parts.append(f"feed-forward {model.ffn}{' gated' if model.gated else ''}")
    parts.append(f"vocabulary {model.vocab}")
    return ", ".join(parts)
