"""The architecture that a size alone stands for: the nearest published shape of its kind."""

from __future__ import annotations

import math

import msgspec

from preflight.catalog import files
from preflight.catalog.architectures import KIND, load_model
from preflight.cost.parameters import count_parameters, is_transformer
from preflight.errors import UsageError
from preflight.plan.inputs.architecture import in_words
from preflight.vocabulary.model import ModelFamily, ModelSpec

# Layers and widths of published decoders of each size: LLaMA 1 and 2 (arXiv 2302.13971, 2307.09288), below them GPT-2's and
# OPT's sizes, above them BLOOM-176B's and GPT-3's depth: the ratio of width to depth grows with the size.
_LADDER = (
    (6, 512), (12, 768), (16, 1024), (24, 1024), (24, 1536), (24, 2048), (28, 2560), (32, 3072), (32, 4096), (36, 4608),
    (40, 5120), (48, 6144), (60, 6656), (72, 7168), (80, 8192), (96, 9216), (96, 10240), (96, 12288), (105, 16384),
    (118, 18432), (126, 20480), (128, 25600),
)  # fmt: skip
# Published shapes above those of the catalog: (name, family, layers, hidden, heads, feed-forward).
# Megatron-LM's BERTs (arXiv 1909.08053), XLM-R XL and XXL (2105.00572); ViT-g and ViT-G (2106.04560), ViT-e (2209.06794),
# ViT-22B (2302.05442); UL2 (2205.05131), whose heads are 256 wide and whose feed-forward layers are gated.
_ABOVE: tuple[tuple[str, ModelFamily, int, int, int, int], ...] = (
    ("Megatron-BERT 1.3B", "transformer_encoder", 24, 2048, 32, 8192),
    ("Megatron-BERT 3.9B", "transformer_encoder", 48, 2560, 40, 10240),
    ("XLM-R XXL", "transformer_encoder", 48, 4096, 32, 16384),
    ("ViT-g/14", "vision_transformer", 40, 1408, 16, 6144),
    ("ViT-G/14", "vision_transformer", 48, 1664, 16, 8192),
    ("ViT-e/14", "vision_transformer", 56, 1792, 16, 15360),
    ("ViT-22B/14", "vision_transformer", 48, 6144, 48, 24576),
    ("UL2 20B", "encoder_decoder", 32, 4096, 16, 16384),
)  # fmt: skip
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
        return Sized(model, f"{billions:g} billion parameters stand for a decoder of {in_words(model)}")
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
        model, f"{billions:g} billion parameters stand for {name} ({own / 1e9:.3g} billion{scaled}): {in_words(model)}"
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
    name, model, own = _of_catalog(wanted, family)
    for title, kind, *numbers in _ABOVE:
        if kind == family:
            shape = _published(kind, *numbers)
            count = count_parameters(shape)
            total = count.total if count else own
            if abs(math.log(wanted / total)) < abs(math.log(wanted / own)):
                name, model, own = title, shape, total
    return name, model, own


def _of_catalog(wanted: float, family: ModelFamily) -> tuple[str, ModelSpec, float]:
    """Return the model of the catalog that is nearest: files are read in the order of their size until one is of the family."""
    sizes = []
    for name in files.names(KIND):
        path = files.find(KIND, name)
        number = files.plain_number(files.read_text(path).replace("_", ""), "parameters") if path else None
        if number:
            # Among models whose sizes are within a few per cent of each other the plainest name is the best known.
            sizes.append((round(abs(math.log(wanted / number)) / 0.03), len(name), name, number))
    for *_, name, number in sorted(sizes):
        model = load_model(name)
        if model.family == family and _plain(model):
            return name, model, number
    raise UsageError(f"the catalog has no {family}")


def _plain(model: ModelSpec) -> bool:
    """Return whether a model is what its family usually is: no audio, no second tower, no shared layers."""
    if model.text is not None or model.shared_layers or model.source_positions or model.kv_lora_rank:
        return False
    if model.family in ("cnn", "diffusion_model"):
        return bool(model.activation_elements)
    return is_transformer(model) and count_parameters(model) is not None


def _published(family: ModelFamily, layers: int, hidden: int, heads: int, ffn: int) -> ModelSpec:
    shape = ModelSpec(family=family, layers=layers, hidden=hidden, heads=heads, ffn=ffn)
    if family == "vision_transformer":
        return msgspec.structs.replace(
            shape, activation="gelu", norm="layernorm", bias=True, learned_positions=True, fused_qkv=True, image_size=224,
            patch_size=14, tokens_per_image=257, channels=3, classes=1000,
        )  # fmt: skip
    if family == "encoder_decoder":
        return msgspec.structs.replace(
            shape, head_dim=256, decoder_layers=layers, gated=True, activation="silu", norm="rmsnorm", bias=False,
            vocab=_VOCABULARY, tied_embeddings=False,
        )  # fmt: skip
    vocab = 250880 if layers == 48 and hidden == 4096 else 30592
    return msgspec.structs.replace(
        shape, activation="gelu", norm="layernorm", bias=True, vocab=vocab, max_positions=512, learned_positions=True,
        tied_embeddings=True, head="mlm",
    )  # fmt: skip


def _resized(shape: ModelSpec, wanted: float, own: float) -> ModelSpec:
    """Return a shape with another total: parameters grow with the square of the width, what is kept with the width."""
    ratio = wanted / own
    changes: dict[str, object] = {"parameters": round(wanted)}
    changes |= dict.fromkeys(("name", "library", "class_name", "base_parameters", "parameters_reason"))
    if shape.family == "transformer_encoder":
        changes["head"] = "mlm"
    if shape.active_parameters:
        changes["active_parameters"] = round(shape.active_parameters * ratio)
    if shape.largest_layer_parameters:
        changes["largest_layer_parameters"] = round(shape.largest_layer_parameters * ratio)
    if shape.activation_elements:
        changes["activation_elements"] = shape.activation_elements * math.sqrt(ratio)
    return msgspec.structs.replace(shape, **changes)
