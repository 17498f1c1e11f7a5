"""The table ``model.architecture``: a network in numbers, as a person writes it."""

from __future__ import annotations

from typing import Any

from preflight.errors import UsageError, nearest
from preflight.plan.inputs.settings import Said, as_number
from preflight.vocabulary.model import ModelSpec

# Feed-forward layers with a gate, three matrices instead of two, by the name of the pair.
_GATED = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}
_NOT_HERE = (
    "family",
    "name",
    "library",
    "class_name",
    "parameters_reason",
    "activation_reason",
    "activation_assumed",
    "networks",
    "text",
    "network",
    "encoder_parameters",
    "samples_per_token",
    "sound_parameters",
    "sound_elements",
    "sound_normed_elements",
)
KNOWN = tuple(name for name in ModelSpec.__struct_fields__ if name not in _NOT_HERE)
_TEXT = ("activation", "norm", "head")
_HEADS = ("lm", "mlm", "classification", "none")
_FLAGS = (
    "gated", "bias", "tied_embeddings", "learned_positions", "qkv_bias", "qk_norm", "fused_qkv", "shared_layers",
)  # fmt: skip
_OF_LOSSES = ("entropy_elements", "compared_elements")
_FRACTIONS = ("dropout", "activation_elements", "forward_flops", *_OF_LOSSES)
_MAY_BE_ZERO = (*_OF_LOSSES, "experts", "experts_per_token", "shared_experts", "dense_layers", "decoder_layers")
_PLAIN = ModelSpec(family="other")
_TRANSFORMERS = ("transformer_decoder", "transformer_encoder", "encoder_decoder", "moe", "vision_transformer")


def architecture_in(table: dict[str, Said], kind: str | None, where: str) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the network that a table describes, and what was taken for granted.

    Args:
        table: From key to value and place.
        kind: The family, where ``model.type`` names it.
        where: The place of the table.

    Raises:
        UsageError: A key is unknown, a value cannot be, or a needed one is missing.
    """
    fields: dict[str, Any] = {}
    for name, said in table.items():
        if name not in KNOWN:
            near = nearest(name.lower(), KNOWN)
            hint = f"did you mean {near}?" if near else f"for example {', '.join(KNOWN[:10])}"
            raise UsageError(f"{said.where}: unknown key of architecture {name!r}", hint)
        if said.value is not None:
            fields[name] = _field(name, said)
        elif getattr(_PLAIN, name) is None:
            fields[name] = None  # known to have none, so that the usual is not taken
    activation = str(fields.get("activation") or "").lower()
    if activation in _GATED:
        fields |= {"gated": fields.get("gated", True), "activation": _GATED[activation]}
    family = kind or _family(fields)
    assumptions: list[str] = []
    if family in _TRANSFORMERS:
        _complete(fields, family, where, assumptions)
    elif not fields.get("parameters"):
        raise UsageError(
            f"{where}: a {family} is described by its parameters and activation_elements", "parameters: 25.6e6"
        )
    return ModelSpec(family=family, **fields), tuple(assumptions)  # type: ignore[arg-type]


def _field(name: str, said: Said) -> Any:
    if name in _TEXT:
        if not isinstance(said.value, str) or (name == "head" and said.value not in _HEADS):
            raise UsageError(
                f"{said.where}: {name} is {said.value!r}", f"one of {', '.join(_HEADS)}" if name == "head" else None
            )
        return said.value.lower()
    if name in _FLAGS:
        if not isinstance(said.value, bool):
            raise UsageError(f"{said.where}: {name} is {said.value!r}, which is not true or false")
        return said.value
    number = as_number(said.value)
    if number is None:
        raise UsageError(f"{said.where}: {name} is {said.value!r}, which is not a number")
    least = 0 if name in (*_MAY_BE_ZERO, "dropout") else 1
    if not least <= number < 1e15:
        raise UsageError(f"{said.where}: {name} is {said.value}, which cannot be", f"at least {least}")
    if name in _FRACTIONS:
        return number
    if number != int(number):
        raise UsageError(f"{said.where}: {name} is {said.value}, which is not a whole number", f"{round(number)} is")
    return int(number)


def _family(fields: dict[str, Any]) -> str:
    """Return the family that the keys tell."""
    if fields.get("experts"):
        return "moe"
    if fields.get("decoder_layers"):
        return "encoder_decoder"
    if fields.get("patch_size") and not fields.get("vocab"):
        return "vision_transformer"
    return "cnn" if fields.get("activation_elements") and not fields.get("hidden") else "transformer_decoder"


def _complete(fields: dict[str, Any], family: str, where: str, assumptions: list[str]) -> None:
    """Fill in what follows from the rest or is usual, and say so."""
    wanted = ["layers", "hidden", "heads"] + (["patch_size"] if family == "vision_transformer" else ["vocab"])
    missing = [name for name in wanted if not fields.get(name)]
    if missing:
        raise UsageError(f"{where}: architecture lacks {', '.join(missing)}", f"it needs {', '.join(wanted)}")
    hidden, heads = fields["hidden"], fields["heads"]
    if hidden % heads and not fields.get("head_dim"):
        near = min((n for n in range(1, hidden + 1) if hidden % n == 0), key=lambda n: abs(n - heads))
        raise UsageError(f"{where}: {heads} heads do not divide the width {hidden}", f"{near} do; or say head_dim")
    kept = fields.get("kv_heads") or heads
    if heads % kept:
        raise UsageError(f"{where}: {heads} heads cannot share {kept} key-value heads", "kv_heads divides heads")
    if "ffn" not in fields and not fields.get("expert_ffn"):
        gated = bool(fields.get("gated"))
        fields["ffn"] = -(-8 * hidden // 3 // 256) * 256 if gated else 4 * hidden
        assumptions.append(f"feed-forward width {fields['ffn']} ({'8/3 of' if gated else '4 times'} the hidden width)")
    if "norm" not in fields:
        fields["norm"] = "rmsnorm" if fields.get("gated") else "layernorm"
        assumptions.append(f"norm: {fields['norm']}")
    if "bias" not in fields:
        fields["bias"] = fields["norm"] != "rmsnorm"
    if "tied_embeddings" not in fields and fields.get("vocab") and family != "transformer_encoder":
        fields["tied_embeddings"] = False
        assumptions.append("the output matrix is not the embedding (tied_embeddings: false)")
    if family == "moe":
        _experts(fields, where, assumptions)
    if family == "vision_transformer":
        _image(fields, assumptions)
    if family == "transformer_encoder" and "max_positions" not in fields:
        fields["max_positions"] = 512
        assumptions.append("a table of 512 positions")


def _experts(fields: dict[str, Any], where: str, assumptions: list[str]) -> None:
    if not fields.get("experts"):
        raise UsageError(f"{where}: a mixture of experts without experts", "experts: 8, experts_per_token: 2")
    if not fields.get("experts_per_token"):
        fields["experts_per_token"] = min(2, fields["experts"])
        assumptions.append(f"{fields['experts_per_token']} experts for every token")
    if fields["experts_per_token"] > fields["experts"]:
        raise UsageError(
            f"{where}: {fields['experts_per_token']} experts per token, but there are {fields['experts']}",
            f"at most {fields['experts']}",
        )


def _image(fields: dict[str, Any], assumptions: list[str]) -> None:
    if "image_size" not in fields:
        fields["image_size"] = 224
        assumptions.append("images of 224 x 224 pixels")
    fields.setdefault("channels", 3)
    fields.setdefault("learned_positions", True)
    if "tokens_per_image" not in fields and fields["image_size"]:
        fields["tokens_per_image"] = (fields["image_size"] // fields["patch_size"]) ** 2 + 1
