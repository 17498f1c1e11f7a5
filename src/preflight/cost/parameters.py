"""How many parameters an architecture has, and where they lie."""

from __future__ import annotations

import msgspec

from preflight.cost.latent import is_latent, latent_parameters
from preflight.vocabulary.model import ModelSpec


class ParameterCount(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters by place. They add up to the total.

    Attributes:
        embedding: Token, type and position tables, patch projection.
        head: Output matrix of its own (0 when tied) with what stands before it.
        head_whole: The part of ``head`` that tensor parallelism does not divide: the transform of ``mlm``, a pooler.
        block: One block of the main stack (of the encoder, for encoder-decoder models; with its experts for MoE).
        block_count: Number of such blocks.
        other_blocks: The remaining blocks together: a decoder, the dense layers of a MoE model.
        block_experts: The part of one block that expert parallelism divides.
        block_whole: The part of one block that every tensor-parallel rank has: norms, biases of the stream, a router.
        positions: The part of ``embedding`` that tensor parallelism does not divide and that a tied output does not
            copy: tables of positions and types.
        norm: Final normalisations.
        exact: Whether the split is that of the architecture, not an even division of the total.
    """

    embedding: float = 0.0
    head: float = 0.0
    head_whole: float = 0.0
    block: float = 0.0
    block_count: int = 1
    other_blocks: float = 0.0
    block_experts: float = 0.0
    block_whole: float = 0.0
    positions: float = 0.0
    norm: float = 0.0
    exact: bool = True

    @property
    def total(self) -> float:
        """All parameters, shared ones once."""
        return self.embedding + self.head + self.block * self.block_count + self.other_blocks + self.norm

    @property
    def matrices(self) -> float:
        """Parameters that matrix multiplications read, which autocast copies in low precision."""
        return self.block * self.block_count + self.other_blocks + self.head


def head_kind(model: ModelSpec) -> str:
    """Return the kind of output: as declared, else what the family is trained with."""
    if model.head is not None:
        return model.head
    if model.family in ("transformer_decoder", "moe", "encoder_decoder"):
        return "lm"
    return "classification"


def attention_width(model: ModelSpec) -> tuple[float, float]:
    """Return the widths (queries, keys): heads x head_dim and kv_heads x head_dim."""
    hidden, heads = float(model.hidden or 0), model.heads or 1
    head_dim = float(model.head_dim) if model.head_dim else hidden / heads
    return heads * head_dim, (model.kv_heads or heads) * head_dim


def expert_share(model: ModelSpec) -> float:
    """Return the share of the blocks that hold experts: 0 without any, less than 1 where some blocks are dense."""
    return 1.0 - model.dense_layers / (model.layers or 1) if model.experts else 0.0


def decoder_depth(model: ModelSpec) -> int:
    """Return the blocks behind an encoder: as many as it has, unless the model says how many; none without one."""
    if model.family != "encoder_decoder":
        return 0
    return (model.layers or 0) if model.decoder_layers is None else model.decoder_layers


def decoder_side(model: ModelSpec) -> ModelSpec:
    """Return an encoder-decoder with the sizes of its decoder in the place of the encoder's.

    Heads divide the same width on both sides (BART: ``decoder_attention_heads``, ``decoder_ffn_dim``).
    """
    heads, width = model.decoder_heads or model.heads, model.decoder_ffn or model.ffn
    if (heads, width) == (model.heads, model.ffn) or not heads:
        return model
    grouped = model.kv_heads is not None and model.kv_heads != model.heads
    return msgspec.structs.replace(
        model,
        heads=heads,
        kv_heads=model.kv_heads if grouped else heads,
        head_dim=int(attention_width(model)[0]) // heads,
        ffn=width,
    )


def is_transformer(model: ModelSpec) -> bool:
    """Return whether the architecture is a known stack of transformer blocks with its sizes known."""
    families = ("transformer_decoder", "transformer_encoder", "encoder_decoder", "moe", "vision_transformer")
    return model.family in families and bool(model.layers and model.hidden and model.heads and feed_forward(model))


def reads_text(model: ModelSpec) -> bool:
    """Return whether the architecture is such a stack over tokens, not over the patches of an image."""
    return is_transformer(model) and model.family != "vision_transformer"


def feed_forward(model: ModelSpec) -> float:
    """Return the width inside the feed-forward layer (of one expert where there are only experts), 0 if unknown."""
    if model.ffn is None and model.family == "moe":
        return float(model.expert_ffn or 0)
    return float(model.ffn or 0)


def _biased(model: ModelSpec) -> bool:
    return model.bias if model.bias is not None else model.norm not in ("rmsnorm", "rms_norm")


def _norm_size(model: ModelSpec) -> float:
    """Return the parameters of one normalisation: a scale, and a shift unless it is an RMS norm."""
    return float(model.hidden or 0) * (1.0 if model.norm in ("rmsnorm", "rms_norm") else 2.0)


def attention_parameters(model: ModelSpec) -> float:
    """Return H(q+2k) + qH and the biases: queries, keys, values and the output projection."""
    if is_latent(model):
        return latent_parameters(model)
    hidden = float(model.hidden or 0)
    queries, keys = attention_width(model)
    count = hidden * (queries + 2 * keys) + queries * hidden
    if _biased(model):
        count += queries + 2 * keys + hidden
    elif model.qkv_bias:
        count += queries + 2 * keys
    if model.qk_norm:
        count += 2 * queries / (model.heads or 1)
    return count


def feed_forward_parameters(model: ModelSpec, width: float) -> float:
    """Return 3HF for gated layers, else 2HF, and the biases."""
    hidden = float(model.hidden or 0)
    matrices = 3 if model.gated else 2
    bias = (width * (matrices - 1) + hidden) if _biased(model) else 0.0
    return matrices * hidden * width + bias


def expert_parameters(model: ModelSpec) -> float:
    """Return the routed experts of one MoE layer."""
    return model.experts * feed_forward_parameters(model, float(model.expert_ffn or model.ffn or 0))


def _moe_block(model: ModelSpec) -> float:
    hidden, width = float(model.hidden or 0), float(model.expert_ffn or model.ffn or 0)
    shared = model.shared_experts * feed_forward_parameters(model, width)
    return hidden * model.experts + expert_parameters(model) + shared


def _whole(model: ModelSpec, norms: float) -> float:
    """Return the parameters of a block that no tensor-parallel rank divides (Shoeybi et al. 2019).

    Norms, and the biases behind the two matrices that are divided by rows; a router that chooses among experts.
    """
    hidden = float(model.hidden or 0)
    return norms + (2 * hidden if _biased(model) else 0.0) + hidden * model.experts


def _norms(model: ModelSpec, count: int) -> float:
    return (model.norms_per_block or count) * _norm_size(model)


def _decoder(model: ModelSpec) -> ParameterCount | None:
    hidden, vocab, layers = float(model.hidden or 0), float(model.vocab or 0), model.layers or 0
    if not vocab or (model.tied_embeddings is None and model.parameters is None):
        return None
    positions = float(model.max_positions or 0) * hidden if model.learned_positions else 0.0
    shared = attention_parameters(model) + _norms(model, 2)
    dense = shared + feed_forward_parameters(model, feed_forward(model))
    experts = expert_parameters(model) if model.experts else 0.0
    block = shared + _moe_block(model) if model.experts else dense
    body = layers - model.dense_layers if model.experts else layers
    return ParameterCount(
        embedding=vocab * hidden + positions,
        head=0.0 if model.tied_embeddings else vocab * hidden,
        block=block,
        block_count=body,
        other_blocks=dense * (layers - body),
        block_experts=experts,
        block_whole=_whole(model, _norms(model, 2)),
        positions=positions,
        norm=_norm_size(model),
    )


def _encoder(model: ModelSpec) -> ParameterCount | None:
    """Count the BERT form: two token types, a normalised embedding, a pooler or a transform before the output."""
    hidden, vocab = float(model.hidden or 0), float(model.vocab or 0)
    if not vocab or not model.max_positions:
        return None
    block = attention_parameters(model) + feed_forward_parameters(model, feed_forward(model)) + _norms(model, 2)
    transform = hidden * hidden + hidden
    head, whole = transform, 0.0  # pooler
    if head_kind(model) == "mlm":
        whole = transform + _norm_size(model) + (transform + 2 * (hidden + 1) if model.pooler else 0.0)
        head = whole + vocab
    elif head_kind(model) == "classification" and model.classes:
        head = transform + model.classes * (hidden + 1)
    positions = (model.max_positions + 2) * hidden
    blocks = 1 if model.shared_layers else model.layers or 0
    return ParameterCount(
        embedding=vocab * hidden + positions,
        head=head,
        head_whole=whole,
        block=block,
        block_count=blocks,
        block_whole=_whole(model, _norms(model, 2)),
        positions=positions,
        norm=_norm_size(model),
    )


def _encoder_decoder(model: ModelSpec) -> ParameterCount | None:
    """Count the T5 form (relative positions of 32 buckets) or, with learned positions, the BART form."""
    hidden, vocab, layers = float(model.hidden or 0), float(model.vocab or 0), model.layers or 0
    decoder = decoder_depth(model)
    if not vocab:
        return None
    attention, mlp = attention_parameters(model), feed_forward_parameters(model, feed_forward(model))
    block = attention + mlp + 2 * _norm_size(model)
    behind = feed_forward_parameters(model, feed_forward(decoder_side(model)))
    other = decoder * (2 * attention + behind + 3 * _norm_size(model))
    if model.learned_positions:
        if not model.max_positions:
            return None
        positions = 2 * (model.max_positions + 2) * hidden  # BART's tables have two rows more than positions
    else:
        positions = 32.0 * ((model.heads or 0) + (decoder_side(model).heads or 0))
    head = vocab * hidden if model.tied_embeddings is False else 0.0
    return ParameterCount(
        embedding=vocab * hidden + positions,
        head=head,
        block=block,
        block_count=layers,
        other_blocks=other,
        block_whole=_whole(model, 2 * _norm_size(model)),
        positions=positions,
        norm=2 * _norm_size(model),
    )


def _vision(model: ModelSpec) -> ParameterCount | None:
    hidden, patch = float(model.hidden or 0), model.patch_size
    tokens = vision_tokens(model, model.image_size)
    if not patch or tokens is None:
        return None
    embedding = (model.channels or 3) * patch * patch * hidden + hidden + hidden + tokens * hidden
    block = attention_parameters(model) + feed_forward_parameters(model, feed_forward(model)) + 2 * _norm_size(model)
    head = float(model.classes) * (hidden + 1) if model.classes else 0.0
    return ParameterCount(
        embedding=embedding, head=head, block=block, block_count=model.layers or 0, norm=_norm_size(model)
    )


def _written(model: ModelSpec) -> ParameterCount | None:
    """Count a network that was written down: its largest unit, the other units, and what lies outside of them."""
    if model.network is None:
        return None
    from preflight.cost.networks.trace import counted_parameters

    (outside, *blocks), frozen = counted_parameters(model.network)
    largest = max(blocks)
    return ParameterCount(embedding=outside + frozen, block=largest, other_blocks=sum(blocks) - largest)


def vision_tokens(model: ModelSpec, image_size: int | None) -> float | None:
    """Return the tokens of an image: its patches and the extra tokens that the model has at its own image size."""
    if not model.patch_size or not image_size:
        return float(model.tokens_per_image) if model.tokens_per_image else None
    patches = (image_size // model.patch_size) ** 2
    own = (model.image_size // model.patch_size) ** 2 if model.image_size else None
    extra = model.tokens_per_image - own if model.tokens_per_image and own else 1
    return float(patches + extra)


def count_parameters(model: ModelSpec) -> ParameterCount | None:
    """Count the parameters of an architecture by place.

    Source of the forms: the layers' definitions (Vaswani et al. 2017, and the reports of GPT-2, BERT, T5, ViT,
    Llama and Mixtral); the planner formula is H(q+2k) + qH + 3HF (or 2HF) + norms per block.

    Args:
        model: The architecture; ``parameters`` wins over the formula, whose split is then scaled to it.

    Returns:
        The count, or None when neither the total nor enough of the architecture is known.
    """
    forms = {
        "transformer_decoder": _decoder,
        "moe": _decoder,
        "transformer_encoder": _encoder,
        "encoder_decoder": _encoder_decoder,
        "vision_transformer": _vision,
    }
    form = forms.get(model.family)
    count = form(model) if form and is_transformer(model) else _written(model)
    if model.parameters is None:
        return count
    total = float(model.parameters)
    if count is None:
        largest = float(model.largest_layer_parameters or 0)
        blocks = max(model.layers or 1, 1)
        block = largest or total / blocks
        return ParameterCount(block=block, block_count=1, other_blocks=total - block, exact=False)
    if model.tied_embeddings is None and abs(count.total - count.head - total) < abs(count.total - total):
        count = msgspec.structs.replace(
            count, head=0.0, head_whole=0.0
        )  # the total tells that the output matrix is the embedding
    difference = total - count.total
    if abs(difference) <= 0.02 * total and count.embedding + difference >= 0:
        # A position table more or fewer, a norm, a pooler: small things outside the blocks.
        return msgspec.structs.replace(count, embedding=count.embedding + difference)
    return _scaled(count, total)


def _scaled(count: ParameterCount, total: float) -> ParameterCount:
    """Return the split with every part multiplied so that it adds up to a known total."""
    factor = total / count.total
    return msgspec.structs.replace(
        count,
        embedding=count.embedding * factor,
        head=count.head * factor,
        head_whole=count.head_whole * factor,
        block=count.block * factor,
        other_blocks=count.other_blocks * factor,
        block_experts=count.block_experts * factor,
        block_whole=count.block_whole * factor,
        positions=count.positions * factor,
        norm=count.norm * factor,
        exact=False,
    )
