"""U-Nets: residual blocks of convolutions at falling and rising resolutions, attention at some of them.

Ho et al. 2020 (arXiv 2006.11239), Rombach et al. 2022 (2112.10752), Podell et al. 2023 (2307.01952), as diffusers writes
them: what is normalised, projected and added in which order decides what autograd keeps.
"""

from __future__ import annotations

from preflight.cost.networks.operation import Tensor
from preflight.cost.networks.tape import Tape
from preflight.vocabulary.network import UNet


def write_unet(tape: Tape, net: UNet, side: float) -> Tensor:
    """Write a forward pass over an input of ``side`` x ``side``."""
    base = net.channels[0]
    time = _condition(tape, net, base)
    text = tape.data(net.text_tokens, net.text_width) if net.text_width else None
    x = tape.convolution(tape.data(side * side, net.in_channels), base)
    skips = [x]
    for level, width in enumerate(net.channels):
        for _ in range(net.resnets[level]):
            x = _resnet(tape, x, time, width)
            x = _attend(tape, net, x, text, net.transformers[level], net.heads[level])
            skips.append(x)
        if level < len(net.channels) - 1:
            x = tape.convolution(x, width, stride=2)
            skips.append(x)
    x = _middle(tape, net, x, time, text)
    for level in reversed(range(len(net.channels))):
        for _ in range(net.resnets[level] + 1):
            x = _resnet(tape, tape.join(x, skips.pop()), time, net.channels[level])
            x = _attend(tape, net, x, text, net.transformers_up[level], net.heads[level])
        if level:
            x = tape.convolution(tape.grown(x, 4.0), net.channels[level])
    return tape.convolution(tape.activation(tape.group_norm(x)), net.out_channels)


def _condition(tape: Tape, net: UNet, base: int) -> Tensor:
    """Return the embedding of the time step, and of what else a sample is conditioned on."""
    width = 4 * base
    time = embedded(tape, tape.data(1.0, base), width)
    if net.classes:
        time = tape.add(time, tape.lookup(net.classes, width))
    if net.added_width:
        time = tape.add(time, embedded(tape, tape.data(1.0, net.added_width), width))
    return time


def embedded(tape: Tape, x: Tensor, width: float) -> Tensor:
    """Return two matrices with a SiLU between them."""
    return tape.linear(tape.activation(tape.linear(x, width)), width)


def _resnet(tape: Tape, x: Tensor, time: Tensor, width: float, unit: bool = True) -> Tensor:
    """Write a residual block: norm, SiLU, convolution, the time step added to every pixel, and once more.

    Units of recomputation are these and the transformer blocks, but for the first block of the middle.
    """
    if unit:
        tape.begin_block()
    inside = tape.convolution(tape.activation(tape.group_norm(x)), width)
    inside = tape.add(inside, tape.linear(tape.activation(time), width))
    inside = tape.convolution(tape.activation(tape.group_norm(inside)), width)
    if x.columns != width:
        x = tape.convolution(x, width, side=1)
    out = tape.scaled(tape.add(x, inside))
    tape.end_block()
    return out


def _attend(tape: Tape, net: UNet, x: Tensor, text: Tensor | None, blocks: int, heads: int) -> Tensor:
    if not blocks:
        return x
    return _transformer(tape, net, x, text, blocks, heads) if net.cross_attention else _plain(tape, x, heads)


def _plain(tape: Tape, x: Tensor, heads: int) -> Tensor:
    """Write a single attention over all pixels."""
    normed = tape.group_norm(x)
    q, k, v = (tape.linear(normed, x.columns) for _ in range(3))
    return tape.scaled(tape.add(tape.linear(tape.attention(q, k, v, heads), x.columns), x))


def _transformer(tape: Tape, net: UNet, x: Tensor, text: Tensor | None, blocks: int, heads: int) -> Tensor:
    """Write transformer blocks over pixels: self attention, attention to the text, a gated feed-forward layer."""
    width = x.columns

    def project(y: Tensor) -> Tensor:
        return tape.linear(y, width) if net.linear_projection else tape.convolution(y, width, side=1)

    h = project(tape.group_norm(x))
    for _ in range(blocks):
        tape.begin_block()
        for seen in (None, text):
            normed = tape.layer_norm(h)
            other = normed if seen is None else seen
            q = tape.linear(normed, width, bias=False)
            k, v = (tape.linear(other, width, bias=False) for _ in range(2))
            h = tape.add(tape.linear(tape.attention(q, k, v, heads), width), h)
        inner = tape.gated(tape.linear(tape.layer_norm(h), 8 * width))
        h = tape.add(tape.linear(inner, width), h)
        tape.end_block()
    return tape.add(project(h), x)


def _middle(tape: Tape, net: UNet, x: Tensor, time: Tensor, text: Tensor | None) -> Tensor:
    if not net.has_middle:
        return x
    width = net.channels[-1]
    x = _resnet(tape, x, time, width, unit=False)
    x = _attend(tape, net, x, text, net.middle or 0, net.heads[-1])
    return _resnet(tape, x, time, width)
