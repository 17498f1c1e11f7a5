"""A network's forward pass for one image size and one precision: where its parameters lie, what it keeps, what it computes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import msgspec

from preflight.cost.networks.operation import Attention, Op, Product
from preflight.cost.networks.rewind import Kept, rewind
from preflight.cost.networks.tape import Tape
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.network import Network, UNet
from preflight.vocabulary.run import RunSpec


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Work of one sample: products and attentions with how often each is done, bytes and kernels of all the rest."""

    products: tuple[tuple[Product, int], ...]
    attentions: tuple[tuple[Attention, int], ...]
    ahead: float
    behind: float
    kernels: float
    kernels_behind: float

    @property
    def flops(self) -> float:
        """Operations of a forward pass: two for each multiplication and addition."""
        products = sum(2 * one.rows * one.columns * one.inner * times for one, times in self.products)
        return products + sum(4 * one.heads * one.dim * one.queries * one.keys * n for one, n in self.attentions)

    @property
    def calls(self) -> float:
        """Kernels of a forward pass."""
        return self.kernels + sum(n for _, n in self.products) + sum(n for _, n in self.attentions)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A network's forward pass.

    Attributes:
        parameters: Trained ones outside blocks, then those of every block. frozen: Those that are not trained.
        whole: All work. blocks: The part of it that recomputation does again.
        kept: What is kept without recomputation. recomputed: With recomputation of every block.
    """

    parameters: tuple[float, ...]
    frozen: float
    whole: Work
    blocks: Work
    kept: Kept
    recomputed: Kept


def network_step(network: Network) -> int:
    """Return the pixels of an image, along a side, that the smallest piece stands for: a patch, or the lowest resolution."""
    if isinstance(network, UNet):
        return int(network.scale * 2 ** (len(network.channels) - 1))
    return network.scale * network.patch


def input_side(network: Network, image_size: float) -> float:
    """Return the side of what the network sees of an image, of which only whole pieces count."""
    step = network_step(network)
    return max(int(image_size) // step, 1) * step / network.scale


@lru_cache(maxsize=64)
def trace(network: Network, side: float, narrow: float, wide: float, written_out: bool) -> Trace:
    """Write a forward pass down and read everything off it."""
    tape = Tape(narrow, wide, written_out)
    if isinstance(network, UNet):
        from preflight.cost.networks.unet import write_unet

        write_unet(tape, network, side)
    else:
        from preflight.cost.networks.transformers import write_transformer

        write_transformer(tape, network, side)
    return Trace(
        parameters=tuple(tape.parameters),
        frozen=tape.frozen,
        whole=_work(tape.ops),
        blocks=_work([op for op in tape.ops if op.block >= 0]),
        kept=rewind(tape, recompute=False),
        recomputed=rewind(tape, recompute=True),
    )


def _work(ops: list[Op]) -> Work:
    return Work(
        products=tuple(Counter(op.product for op in ops if op.product is not None).items()),
        attentions=tuple(Counter(op.attention for op in ops if op.attention is not None).items()),
        ahead=sum(op.ahead for op in ops),
        behind=sum(op.behind for op in ops if op.output.graded),
        kernels=sum(op.kernels for op in ops),
        kernels_behind=sum(op.kernels_behind for op in ops if op.output.graded),
    )


def trace_of(model: ModelSpec, run: RunSpec, narrow: float, wide: float) -> Trace | None:
    """Return the trace of a model for the images of a run, or None where it is no such network."""
    size = run.image_size or model.image_size
    if model.network is None or not size:
        return None
    network = model.network
    if network.text_width and run.sequence_length:
        network = msgspec.structs.replace(network, text_tokens=int(run.sequence_length))
    return trace(network, input_side(network, size), narrow, wide, run.attention in ("eager", "math"))


def counted_parameters(network: Network) -> tuple[tuple[float, ...], float]:
    """Return trained parameters outside blocks and of every block, and those that are not trained: for any image."""
    smallest = 2.0 ** (len(network.channels) - 1) if isinstance(network, UNet) else float(network.patch)
    found = trace(network, smallest, 2.0, 2.0, False)
    return found.parameters, found.frozen
