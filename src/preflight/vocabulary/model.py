"""Model words: an architecture in numbers."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.network import Network

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
        forward_flops: FLOP of one forward pass of one sample at ``image_size``, where they were counted (CNN).
        activation_elements: Elements that autograd saves for one sample at ``image_size`` (CNN, U-Net), outputs counted once.
        activation_reason: Why ``activation_elements`` is not known of a network of a script, or None.
        networks: How many networks are trained side by side, whose figures are added up.
        entropy_elements: Elements of one sample that cross entropy is given, of a network whose layers were followed.
        compared_elements: Elements of one sample that other losses are given.
        activation_assumed: What ``activation_elements`` are for, where the script does not tell: "images of 32 x 32, ...".
        largest_layer_parameters: Parameters of the largest block, for sharded gathering.
        head: What the output is: ``lm`` (a row of the vocabulary per token), ``mlm`` (the same behind a transform),
            ``classification``, or ``none``; by family when None (decoders ``lm``, vision ``classification``).
        pooler: Whether a pooler and a choice of two classes stand beside the ``mlm`` output (BERT's next-sentence task).
        qkv_bias: Whether queries, keys and values alone have a bias (Qwen2); as ``bias`` when None.
        qk_norm: Whether queries and keys are normalised per head (Qwen3).
        fused_qkv: Whether one matrix yields queries, keys and values (GPT-2), so that its input is cast once.
        norms_per_block: Normalisations of one block (4 in Gemma 2, 1 in parallel blocks that share it).
        parallel_blocks: Whether attention and feed-forward layer read the same stream (GPT-NeoX, Falcon, Phi).
        attention_softcap: Whether attention scores are capped by a tanh, which flash kernels of torch do not take (Gemma 2).
        library: Where the counted class lives: transformers, timm, torchvision, diffusers.
        class_name: The class or factory that ``parameters`` was counted on ("LlamaForCausalLM", "resnet50").
        base_parameters: Exact count without the head of that class, when the library offers the class without it.
        active_parameters: Parameters one token passes through (MoE); ``parameters`` for dense models when None.
        parameters_reason: Why ``parameters`` is None, or None.
        embedding_dim: Width of the token embedding when it is not ``hidden`` (ALBERT, ELECTRA, OPT-350m).
        shared_layers: Whether all blocks share one set of parameters (ALBERT).
        decoder_heads: Attention heads of the decoder, when they differ from the encoder's.
        decoder_ffn: Feed-forward width of the decoder, when it differs from the encoder's.
        source_positions: Positions of the encoder that are not tokens (Whisper: audio frames after the strides).
        q_lora_rank: Rank of the compressed queries (multi-head latent attention).
        kv_lora_rank: Rank of the compressed keys and values (multi-head latent attention).
        rope_head_dim: Part of a head that carries rotary positions (multi-head latent attention).
        value_head_dim: Width of one value head, when it differs from ``head_dim``.
        sliding_window: Tokens that a windowed attention layer sees.
        network: The form of a network that is no stack of equal blocks (U-Net, diffusion transformer).
        text: The text tower of a two-tower model (CLIP, SigLIP); the other fields are the image tower's.
        encoder_parameters: Parameters of the encoder of an encoder-decoder, with the embedding that it shares.
        samples_per_token: Samples of sound behind one token: the product of the strides of the convolutions that read it.
        sound_parameters: Parameters of these convolutions.
        sound_elements: Elements for one token that they keep for the backward pass where they are trained, but for
        sound_normed_elements: those that normalisations between them keep.
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
    activation_reason: str | None = None
    entropy_elements: float | None = None
    compared_elements: float | None = None
    activation_assumed: str | None = None
    networks: int = 1
    forward_flops: float | None = None
    largest_layer_parameters: int | None = None
    head: Literal["lm", "mlm", "classification", "none"] | None = None
    pooler: bool = False
    qkv_bias: bool | None = None
    qk_norm: bool = False
    fused_qkv: bool = False
    norms_per_block: int | None = None
    parallel_blocks: bool = False
    attention_softcap: bool = False
    library: str | None = None
    class_name: str | None = None
    base_parameters: int | None = None
    active_parameters: int | None = None
    parameters_reason: str | None = None
    embedding_dim: int | None = None
    shared_layers: bool = False
    decoder_heads: int | None = None
    decoder_ffn: int | None = None
    source_positions: int | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    value_head_dim: int | None = None
    sliding_window: int | None = None
    network: Network | None = None
    text: ModelSpec | None = None
    encoder_parameters: int | None = None
    samples_per_token: int | None = None
    sound_parameters: int | None = None
    sound_elements: float | None = None
    sound_normed_elements: float | None = None


def architecture_in_words(model: ModelSpec) -> str:
    """Return an architecture in one line."""
    parts = []
    if model.decoder_layers:
        parts.append(f"{model.layers or 0} + {model.decoder_layers} layers")
    elif model.layers:
        parts.append(f"{model.layers} layers")
    if model.hidden:
        parts.append(f"hidden {model.hidden}")
    if model.heads:
        parts.append(f"{model.heads} heads")
    if model.kv_heads and model.kv_heads != model.heads:
        parts.append(f"{model.kv_heads} key-value heads")
    width = model.expert_ffn or model.ffn
    if width:
        parts.append(f"feed-forward {width}{' gated' if model.gated else ''}")
    if model.experts:
        parts.append(f"{model.experts} experts, {model.experts_per_token} per token")
    if model.vocab:
        parts.append(f"vocabulary {model.vocab}")
    if model.patch_size:
        parts.append(f"patches of {model.patch_size}")
    if model.activation_elements:
        of = f"an image of {model.image_size}" if model.image_size else "a sample"
        parts.append(f"{model.activation_elements / 1e6:.3g} million elements kept for {of}")
    return ", ".join(parts)


def model_in_words(model: ModelSpec) -> str:
    """Return how large a model is and of what: ``8.03 B parameters: 32 layers, hidden 4096, ...``."""
    if model.parameters is None:
        count = f"parameters not known ({model.parameters_reason})" if model.parameters_reason else ""
    else:
        count = f"{_billions(model.parameters)} parameters"
    if model.active_parameters is not None:
        count += f", {_billions(model.active_parameters)} of them for a token"
    return ": ".join(part for part in (count, architecture_in_words(model)) if part)


def _billions(count: float) -> str:
    return f"{count / 1e9:.4g} B" if count >= 1e9 else f"{count / 1e6:.4g} M"
