"""Model words: an architecture in numbers."""

from __future__ import annotations

from typing import Literal

import msgspec

ModelFamily = Literal[
    "transformer_decoder",
    "transformer_encoder",
    "encoder_decoder",
    "moe",
    "vision_transformer",
    "cnn",
    "diffusion_model",
    "rnn",
    "mlp",
    "other",
]


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An architecture in numbers. What is not known or does not apply is None.

    Attributes:
        name: Canonical key in the catalog, or None for a network read from a script.
        parameters: Exact count of parameters, shared ones once.
        layers: Transformer blocks (of the encoder, for encoder-decoder models), or residual blocks.
        hidden: Width of the residual stream.
        heads: Attention heads.
        kv_heads: Heads of keys and values (GQA, MQA); equal to ``heads`` when None.
        head_dim: Width of one head; ``hidden / heads`` when None.
        ffn: Width inside the feed-forward layer (of one expert for MoE: ``expert_ffn``).
        gated: Whether the feed-forward layer has a gate (SwiGLU, GEGLU): three matrices instead of two.
        vocab: Rows of the token embedding.
        max_positions: The longest sequence that the position table or the configuration admits.
        tied_embeddings: Whether the output matrix is the token embedding.
        learned_positions: Whether positions are a table of parameters.
        experts: Routed experts per MoE layer (0: dense).
        decoder_layers: Blocks of the decoder for encoder-decoder models.
        image_size: Side of the input image in pixels that the figures are for.
        patch_size: Side of a patch in pixels (vision transformers, DiT).
        tokens_per_image: Sequence length of a vision transformer at ``image_size``, class tokens included.
        activation_elements: Elements that autograd saves for one sample at ``image_size`` (CNN, U-Net), outputs counted once.
        largest_layer_parameters: Parameters of the largest block, for sharded gathering.
    """

    family: ModelFamily
    name: str | None = None
    parameters: int | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    gated: bool = False
    activation: str | None = None
    norm: str | None = None
    bias: bool | None = None
    vocab: int | None = None
    max_positions: int | None = None
    tied_embeddings: bool | None = None
    learned_positions: bool | None = None
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    expert_ffn: int | None = None
    dense_layers: int = 0
    decoder_layers: int | None = None
    image_size: int | None = None
    patch_size: int | None = None
    tokens_per_image: int | None = None
    channels: int | None = None
    classes: int | None = None
    dropout: float | None = None
    activation_elements: float | None = None
    largest_layer_parameters: int | None = None
