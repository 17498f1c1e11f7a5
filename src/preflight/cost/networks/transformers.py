"""Diffusion transformers: blocks over the patches of a latent image, modulated by a time step.

DiT (Peebles and Xie 2022, arXiv 2212.09748), PixArt (Chen et al. 2023, 2310.00426), Stable Diffusion 3 (Esser et al. 2024,
2403.03206) and Flux, as their published code and diffusers write them.
"""

from __future__ import annotations

from preflight.cost.networks.operation import Tensor
from preflight.cost.networks.tape import Tape
from preflight.cost.networks.unet import embedded
from preflight.vocabulary.network import DiffusionTransformer

# Width of the sinusoids that a time step, a size or a strength of guidance is written in.
_SINUSOIDS = 256


def write_transformer(tape: Tape, net: DiffusionTransformer, side: float) -> Tensor:
    """Write a forward pass over a latent image of ``side`` x ``side``."""
    tokens = float(int(side) // net.patch) ** 2
    if net.style == "dit":
        return _dit(tape, net, side, tokens)
    if net.style == "pixart":
        return _pixart(tape, net, side)
    return _joint(tape, net, side, tokens)


def _patches(tape: Tape, net: DiffusionTransformer, side: float) -> Tensor:
    """Return the patches of a latent image through a convolution without overlap."""
    image = tape.data(side * side, net.in_channels)
    return tape.convolution(image, net.hidden, side=net.patch, stride=net.patch)


def _feed_forward(tape: Tape, net: DiffusionTransformer, x: Tensor) -> Tensor:
    return tape.linear(tape.activation(tape.linear(x, net.ffn)), net.hidden)


def _attention(tape: Tape, net: DiffusionTransformer, x: Tensor, other: Tensor | None = None) -> Tensor:
    """Write attention of a sequence to itself or to another, with matrices for queries, keys and values."""
    q = tape.linear(x, net.hidden)
    k, v = (tape.linear(other or x, net.hidden) for _ in range(2))
    if net.qk_norm:
        q, k = (tape.rms_norm(part, net.hidden / net.heads, written_out=True) for part in (q, k))
    return tape.linear(tape.attention(q, k, v, net.heads), net.hidden)


def _chunks(tape: Tape, x: Tensor, count: int) -> list[Tensor]:
    """Return modulations: equal parts of one row."""
    return [tape.view(x, 1.0, x.columns / count) for _ in range(count)]


def _adaptive(tape: Tape, net: DiffusionTransformer, condition: Tensor, count: int) -> list[Tensor]:
    return _chunks(tape, tape.linear(tape.activation(condition), count * net.hidden), count)


def _dit(tape: Tape, net: DiffusionTransformer, side: float, tokens: float) -> Tensor:
    x = _patches(tape, net, side)
    # diffusers brings the sum with the positions back into the width of the patches, the published code does not.
    x = tape.cast(tape.add(x, _positions(tape, net, tokens)), tape.narrow if net.own_embeddings else tape.wide)
    condition = None if net.own_embeddings else _label(tape, net)
    shared = condition
    for _ in range(net.blocks):
        tape.begin_block()
        own = condition or _label(tape, net)
        shared = shared or own
        x = _dit_block(tape, net, x, own)
        tape.end_block()
    assert shared is not None
    shift, scale = _adaptive(tape, net, shared, 2)
    x = tape.modulated(tape.layer_norm(x, affine=False), shift, scale)
    return tape.copy(tape.linear(x, net.patch**2 * net.out_channels))


def _positions(tape: Tape, net: DiffusionTransformer, tokens: float) -> Tensor:
    if net.learned_positions:
        tape.own(net.learned_positions * net.hidden, trained=False)
    return Tensor(tokens, net.hidden, tape.wide, -1, -1, False)


def _label(tape: Tape, net: DiffusionTransformer) -> Tensor:
    """Return the embedding of a time step and a class; one more class stands for none."""
    time = embedded(tape, tape.data(1.0, _SINUSOIDS), net.hidden)
    if not net.classes:
        return time
    return tape.add(time, tape.lookup(net.classes + 1, net.hidden))


def _dit_block(tape: Tape, net: DiffusionTransformer, x: Tensor, condition: Tensor) -> Tensor:
    """Write a block whose two branches are shifted, scaled and gated by the condition."""
    parts = _adaptive(tape, net, condition, 6)
    normed = tape.modulated(tape.layer_norm(x, affine=False), parts[0], parts[1])
    if net.own_embeddings:
        seen = _attention(tape, net, normed)
    else:
        whole = tape.linear(normed, 3 * net.hidden)
        q, k, v = (tape.view(whole, whole.rows, net.hidden) for _ in range(3))
        seen = tape.linear(tape.attention(q, k, v, net.heads, whole), net.hidden)
    x = tape.add(x, tape.multiply(seen, parts[2]))
    normed = tape.modulated(tape.layer_norm(x, affine=False), parts[3], parts[4])
    return tape.add(x, tape.multiply(_feed_forward(tape, net, normed), parts[5]))


def _pixart(tape: Tape, net: DiffusionTransformer, side: float) -> Tensor:
    x = _patches(tape, net, side)
    text = tape.activation(tape.linear(tape.data(net.text_tokens, net.text_width), net.hidden))
    text = tape.linear(text, net.hidden)
    condition = embedded(tape, tape.data(1.0, _SINUSOIDS), net.hidden)
    if net.sizes:  # two sides and a proportion, a third of the width each
        sides = embedded(tape, tape.data(2.0, _SINUSOIDS), net.hidden // 3)
        ratio = embedded(tape, tape.data(1.0, _SINUSOIDS), net.hidden // 3)
        condition = tape.add(condition, tape.join(tape.view(sides, 1.0, 2 * sides.columns), ratio))
    shared = tape.linear(tape.activation(condition), 6 * net.hidden)
    for _ in range(net.blocks):
        tape.begin_block()
        x = _pixart_block(tape, net, x, text, shared)
        tape.end_block()
    shift, scale = _chunks(tape, tape.add(tape.own(2 * net.hidden), tape.join(condition, condition)), 2)
    x = tape.modulated(tape.layer_norm(x, affine=False), shift, scale)
    return tape.copy(tape.linear(x, net.patch**2 * net.out_channels))


def _pixart_block(tape: Tape, net: DiffusionTransformer, x: Tensor, text: Tensor, shared: Tensor) -> Tensor:
    """Write a block that adds a table of its own to the modulation of all, and attends to the text in between."""
    parts = _chunks(tape, tape.add(tape.own(6 * net.hidden), shared), 6)
    normed = tape.modulated(tape.layer_norm(x, affine=False), parts[0], parts[1])
    x = tape.add(tape.multiply(_attention(tape, net, normed), parts[2]), x)
    x = tape.add(_attention(tape, net, x, text), x)
    normed = tape.modulated(tape.layer_norm(x, affine=False), parts[3], parts[4])
    return tape.add(tape.multiply(_feed_forward(tape, net, normed), parts[5]), x)


def _joint(tape: Tape, net: DiffusionTransformer, side: float, tokens: float) -> Tensor:
    if net.style == "flux":  # patches come as rows already
        x = tape.linear(tape.data(tokens, net.in_channels * net.patch**2), net.hidden)
    else:
        x = tape.copy(_patches(tape, net, side))
    condition = embedded(tape, tape.data(1.0, _SINUSOIDS), net.hidden)
    if net.guidance:
        condition = tape.add(condition, embedded(tape, tape.data(1.0, _SINUSOIDS), net.hidden))
    condition = tape.add(condition, embedded(tape, tape.data(1.0, net.pooled_width), net.hidden))
    text = tape.linear(tape.data(net.text_tokens, net.text_width), net.hidden)
    for index in range(net.blocks):
        tape.begin_block()
        last = net.style == "sd3" and index == net.blocks - 1
        x, text = _joint_block(tape, net, x, text, condition, dual=index < net.dual_blocks, last=last)
        tape.end_block()
    for _ in range(net.single_blocks):
        tape.begin_block()
        both = _single_block(tape, net, tape.join(text, x, rows=True), condition)
        tape.end_block()
        text, x = tape.view(both, text.rows, net.hidden), tape.view(both, x.rows, net.hidden)
    shift, scale = _adaptive(tape, net, condition, 2)
    x = tape.modulated(tape.layer_norm(x, affine=False), shift, scale)
    return tape.copy(tape.linear(x, net.patch**2 * net.out_channels))


def _heads(tape: Tape, net: DiffusionTransformer, x: Tensor, normed: bool) -> list[Tensor]:
    """Return queries, keys and values of one of the two sequences."""
    q, k, v = (tape.linear(x, net.hidden) for _ in range(3))
    if normed:
        q, k = (tape.rms_norm(part, net.hidden / net.heads, written_out=net.style == "sd3") for part in (q, k))
    return [q, k, v]


def _joint_block(
    tape: Tape, net: DiffusionTransformer, x: Tensor, text: Tensor, condition: Tensor, dual: bool, last: bool
) -> tuple[Tensor, Tensor]:
    """Write a block in which image and text have matrices of their own and attend as one sequence."""
    flux = net.style == "flux"
    parts = _adaptive(tape, net, condition, 9 if dual else 6)
    normed = tape.layer_norm(x, affine=False)
    image = tape.modulated(normed, parts[0], parts[1])
    alone = tape.modulated(normed, parts[6], parts[7]) if dual else None
    told = _adaptive(tape, net, condition, 2 if last else 6)
    words = tape.modulated(tape.layer_norm(text, affine=False), told[0], told[1])
    rows = zip(
        _heads(tape, net, image, flux or net.qk_norm), _heads(tape, net, words, flux or net.qk_norm), strict=True
    )
    q, k, v = (tape.join(one, two, rows=True) for one, two in rows)
    if flux:
        q, k = tape.rotated(q), tape.rotated(k)
    seen = tape.attention(q, k, v, net.heads)
    x = tape.add(x, tape.multiply(tape.linear(tape.part(seen, x.rows), net.hidden), parts[2]))
    if alone is not None:
        x = tape.add(x, tape.multiply(_attention(tape, net, alone), parts[8]))
    image = tape.modulated(tape.layer_norm(x, affine=False), parts[3], parts[4])
    x = tape.add(x, tape.multiply(_feed_forward(tape, net, image), parts[5]))
    if last:
        return x, text
    text = tape.add(text, tape.multiply(tape.linear(tape.part(seen, text.rows), net.hidden), told[2]))
    words = tape.modulated(tape.layer_norm(text, affine=False), told[3], told[4])
    return x, tape.add(text, tape.multiply(_feed_forward(tape, net, words), told[5]))


def _single_block(tape: Tape, net: DiffusionTransformer, x: Tensor, condition: Tensor) -> Tensor:
    """Write a block of one sequence whose attention and feed-forward layer run side by side into one matrix."""
    shift, scale, gate = _adaptive(tape, net, condition, 3)
    normed = tape.modulated(tape.layer_norm(x, affine=False), shift, scale)
    inner = tape.activation(tape.linear(normed, net.ffn))
    q, k, v = _heads(tape, net, normed, normed=True)
    seen = tape.attention(tape.rotated(q), tape.rotated(k), v, net.heads)
    return tape.add(x, tape.multiply(tape.linear(tape.join(seen, inner), net.hidden), gate))
