"""The architecture that a size alone stands for: the nearest published shape of its kind."""

from __future__ import annotations

import math

import msgspec

from preflight.catalog import files
from preflight.catalog.architectures import KIND, load_model
from preflight.cost.networks.trace import trace_of
from preflight.cost.parameters import count_parameters, is_transformer
from preflight.errors import UsageError
from preflight.vocabulary.model import ModelFamily, ModelSpec, architecture_in_words
from preflight.vocabulary.run import RunSpec

# Layers and widths of published decoders of each size: LLaMA 1 and 2 (arXiv 2302.13971, 2307.09288), below them GPT-2's and
# OPT's sizes, above them BLOOM-176B's and GPT-3's depth: the ratio of width to depth grows with the size.
_LADDER = (
    (6, 512), (12, 768), (16, 1024), (24, 1024), (24, 1536), (24, 2048), (28, 2560), (32, 3072), (32, 4096), (36, 4608),
    (40, 5120), (48, 6144), (60, 6656), (72, 7168), (80, 8192), (96, 9216), (96, 10240), (96, 12288), (105, 16384),
    (118, 18432), (126, 20480), (128, 25600),
)  # fmt: skip
# Published shapes of the other stacks of blocks: (name, layers, hidden, heads, feed-forward, width of a head).
# BERT (arXiv 1810.04805) and its miniatures (1908.08962), Megatron-LM's BERTs (1909.08053), XLM-R XXL (2105.00572);
# ViT (2010.11929), ViT-g and ViT-G (2106.04560), ViT-e (2209.06794), ViT-22B (2302.05442); T5 (1910.10683), UL2 (2205.05131).
_SHAPES: dict[str, tuple[tuple[str, int, int, int, int, int], ...]] = {
    "transformer_encoder": (
        ("BERT-Tiny", 2, 128, 2, 512, 64), ("BERT-Mini", 4, 256, 4, 1024, 64), ("BERT-Small", 4, 512, 8, 2048, 64),
        ("BERT-Medium", 8, 512, 8, 2048, 64), ("BERT-Base", 12, 768, 12, 3072, 64), ("BERT-Large", 24, 1024, 16, 4096, 64),
        ("Megatron-BERT 1.3B", 24, 2048, 32, 8192, 64), ("Megatron-BERT 3.9B", 48, 2560, 40, 10240, 64),
        ("XLM-R XXL", 48, 4096, 32, 16384, 128),
    ),
    "vision_transformer": (
        ("ViT-Ti/16", 12, 192, 3, 768, 64), ("ViT-S/16", 12, 384, 6, 1536, 64), ("ViT-B/16", 12, 768, 12, 3072, 64),
        ("ViT-L/16", 24, 1024, 16, 4096, 64), ("ViT-H/14", 32, 1280, 16, 5120, 80), ("ViT-g/14", 40, 1408, 16, 6144, 88),
        ("ViT-G/14", 48, 1664, 16, 8192, 104), ("ViT-e/14", 56, 1792, 16, 15360, 112), ("ViT-22B/14", 48, 6144, 48, 24576, 128),
    ),
    "encoder_decoder": (
        ("T5-Small", 6, 512, 8, 2048, 64), ("T5-Base", 12, 768, 12, 3072, 64), ("T5-Large", 24, 1024, 16, 4096, 64),
        ("T5-3B", 24, 1024, 32, 16384, 128), ("T5-11B", 24, 1024, 128, 65536, 128), ("UL2 20B", 32, 4096, 16, 16384, 256),
    ),
}  # fmt: skip
_VOCABULARY = 32000
_MULTIPLE = 256
LARGEST = 2_000.0
# A shape stands for sizes up to so many times its own; beyond, nothing published says what the network would look like.
_FARTHEST = 3.0


class Sized(msgspec.Struct, frozen=True):
    """The architecture of a size, and the sentence that says what was taken for granted."""

    model: ModelSpec
    assumption: str


def model_of_size(billions: float, family: ModelFamily) -> Sized:
    """Return a model of a family with this many parameters: the nearest published shape, its total as given.

    Raises:
        UsageError: The size is not positive, or no shape near it was published.
    """
    if not 0 < billions <= LARGEST:
        raise UsageError(f"a model of {billions:g} billion parameters", f"more than 0 and at most {LARGEST:g}")
    if family == "transformer_decoder":
        model = decoder_of(billions)
        return Sized(model, f"{billions:g} billion parameters stand for a decoder of {architecture_in_words(model)}")
    wanted = billions * 1e9
    name, shape, own = _nearest(wanted, family)
    ratio = wanted / own
    if ratio > _FARTHEST and family not in ("cnn", "diffusion_model"):
        raise UsageError(
            f"a {family} of {billions:g} billion parameters: the largest published shape known here is {name} with {own / 1e9:.3g}",
            f"describe it with model.architecture, or at most {own * _FARTHEST / 1e9:.3g} billion",
        )
    model = _resized(shape, wanted, own)
    scaled = f", scaled by {ratio:.3g}" if abs(ratio - 1) > 0.01 else ""
    return Sized(
        model,
        f"{billions:g} billion parameters stand for {name} ({own / 1e9:.3g} billion{scaled}): {architecture_in_words(model)}",
    )


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


def _nearest(wanted: float, family: ModelFamily) -> tuple[str, ModelSpec, float]:
    """Return the published shape whose size is nearest: its name, its numbers, its size."""
    if family not in _SHAPES:
        return _of_catalog(wanted, family)
    known = []
    for name, *numbers in _SHAPES[family]:
        shape = _published(name, family, *numbers)
        count = count_parameters(shape)
        if count is not None:
            known.append((name, shape, count.total))
    return min(known, key=lambda one: abs(math.log(wanted / one[2])))


def _of_catalog(wanted: float, family: ModelFamily) -> tuple[str, ModelSpec, float]:
    """Return the model of the catalog that is nearest: files are read in the order of their size until one is of the family."""
    sizes = []
    for name in files.names(KIND):
        path = files.find(KIND, name)
        number = files.plain_number(files.read_text(path).replace("_", ""), "parameters") if path else None
        if number:
            sizes.append((abs(math.log(wanted / number)), name, number))
    for _, name, number in sorted(sizes):
        model = load_model(name)
        if model.family == family and _plain(model):
            return name, model, number
    raise UsageError(f"the catalog has no {family}")


def _plain(model: ModelSpec) -> bool:
    """Return whether a model is what its family usually is: no audio, no second tower, no shared layers."""
    if model.text is not None or model.shared_layers or model.source_positions or model.kv_lora_rank:
        return False
    if model.family in ("cnn", "diffusion_model"):
        return bool(model.activation_elements or model.network)
    return is_transformer(model) and count_parameters(model) is not None


def _published(name: str, family: ModelFamily, layers: int, hidden: int, heads: int, ffn: int, head: int) -> ModelSpec:
    """Return a shape with what its family has in common."""
    shape = ModelSpec(family=family, layers=layers, hidden=hidden, heads=heads, ffn=ffn, head_dim=head)
    if family == "vision_transformer":
        patch = int(name.rpartition("/")[2])
        return msgspec.structs.replace(
            shape, activation="gelu", norm="layernorm", bias=True, learned_positions=True, fused_qkv=True, image_size=224,
            patch_size=patch, tokens_per_image=(224 // patch) ** 2 + 1, channels=3, classes=1000,
        )  # fmt: skip
    if family == "encoder_decoder":
        gated = name.startswith("UL2")
        return msgspec.structs.replace(
            shape, decoder_layers=layers, gated=gated, activation="silu" if gated else "relu", norm="rmsnorm", bias=False,
            vocab=32128, tied_embeddings=not gated, dropout=0.0 if gated else 0.1,
        )  # fmt: skip
    vocab = 250880 if name.startswith("XLM-R") else 30522
    return msgspec.structs.replace(
        shape, activation="gelu", norm="layernorm", bias=True, vocab=vocab, max_positions=512, learned_positions=True,
        tied_embeddings=True, head="mlm", dropout=0.1,
    )  # fmt: skip


def _resized(shape: ModelSpec, wanted: float, own: float) -> ModelSpec:
    """Return a shape with another total: parameters grow with the square of the width, what is kept with the width."""
    ratio = wanted / own
    changes: dict[str, object] = {"parameters": round(wanted)}
    changes |= dict.fromkeys(
        (
            "name",
            "library",
            "class_name",
            "base_parameters",
            "parameters_reason",
            "activation_reason",
            "activation_assumed",
            "encoder_parameters",
            "sound_parameters",
        )
    )
    if shape.active_parameters:
        changes["active_parameters"] = round(shape.active_parameters * ratio)
    if shape.largest_layer_parameters:
        changes["largest_layer_parameters"] = round(shape.largest_layer_parameters * ratio)
    if shape.network is not None:
        # The form has no size in between: what it keeps and computes is scaled as if it had been counted.
        found = trace_of(shape, RunSpec(), 2.0, 2.0)
        assert found is not None
        changes |= {"network": None, "activation_elements": found.kept.saved / 2 * math.sqrt(ratio)}
        changes["forward_flops"] = found.whole.flops * ratio
    if shape.activation_elements:
        changes["activation_elements"] = shape.activation_elements * math.sqrt(ratio)
    if shape.forward_flops:
        changes["forward_flops"] = shape.forward_flops * ratio
    return msgspec.structs.replace(shape, **changes)
