"""Bytes of logits and loss."""

from __future__ import annotations

import msgspec

from preflight.cost.numeric import larger, smaller
from preflight.cost.parameters import head_kind
from preflight.cost.recipe import Recipe
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class LossBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of logits and loss at three moments.

    Attributes:
        forward: When the loss has been computed.
        backward: At the peak of the loss's backward pass.
        held: What stays while the blocks run backward, because a variable of the loop still names the logits.
        how: The arithmetic.
        unpacked: The part of ``forward`` and ``backward`` that does not grow with the batch: a matrix out of 4 bits.
    """

    forward: float = 0.0
    backward: float = 0.0
    held: float = 0.0
    how: str = ""
    unpacked: float = 0.0

    def scaled(self, factor: float) -> LossBytes:
        """Return every moment times ``factor``."""
        return LossBytes(
            forward=self.forward * factor,
            backward=self.backward * factor,
            held=self.held * factor,
            how=self.how,
            unpacked=self.unpacked * factor,
        )


def loss_bytes(model: ModelSpec, run: RunSpec, parallel: ParallelDims, recipe: Recipe, tokens: float) -> LossBytes:
    """Return the bytes of logits and loss, with an output matrix that is unpacked from 4 bits for its product."""
    loss = _loss_bytes(model, run, parallel, recipe, tokens)
    if run.finetune != "qlora" or not run.quantized_head or not model.vocab:
        return loss
    unpacked = 2.0 * run.unpacked_copies * float(model.vocab) * float(model.hidden or 0)
    return LossBytes(
        forward=loss.forward + unpacked,
        backward=loss.backward + unpacked,
        held=loss.held,
        how=loss.how,
        unpacked=unpacked,
    )


def _loss_bytes(model: ModelSpec, run: RunSpec, parallel: ParallelDims, recipe: Recipe, tokens: float) -> LossBytes:
    """Return the bytes of logits and cross entropy over ``tokens`` rows of the vocabulary.

    Eager cross entropy: logits (w), their fp32 copy (4, gone after the loss unless w is 4), log-softmax (4, kept),
    in backward the gradient of the log-softmax and of the fp32 logits (4 + 4): 12 bytes per element beside the
    logits themselves, as nll_loss and log_softmax allocate them. Without an fp32 copy all are w wide.
    Under autocast, without an upcast by the model, the log-softmax stays low-precision (``cross_entropy_loss`` asks for the
    type of its input) and only nll_loss gets an fp32 copy: logits and log-softmax (2w), the copy and its gradient (4 + 4).
    Compiled with the model: logits and their gradient alone, as softmax and fp32 stay in registers (a GPT of 124 M with
    50,304 words, 16 x 1024 tokens in bf16: 8.4 GiB in all on an H100, where 15 were counted; benchmarks/gpu/measured_h100.toml).
    Chunked: the gradients of one chunk at a time. Fused (Liger, cut cross entropy): one chunk altogether.
    Parallel: the vocabulary is divided over tensor-parallel ranks, and the softmax is overwritten (Megatron-LM).
    """
    kind = head_kind(model)
    if kind not in ("lm", "mlm") or not model.vocab:
        if model.entropy_elements is not None:
            return _of_network(model, run, recipe)
        classes = float(model.classes or 0) if model.network is None else 0.0  # a condition there, no output
        samples = 1.0 * (0 if run.micro_batch is None else run.micro_batch)
        return LossBytes(forward=8 * samples * classes, backward=16 * samples * classes, held=4 * samples * classes)
    share = parallel.tp if parallel.framework == "megatron" or run.cross_entropy == "parallel" else 1
    elements = tokens * float(model.vocab) / share
    w = recipe.matmul
    wide = 4.0 if (run.logits_upcast or w > 2) else w
    cast_loss = bool(recipe.cast) and wide == w
    copy = wide if wide != w else 0.0
    name = f"{tokens:.0f} tokens x {model.vocab / share:.0f}" if isinstance(elements, float) else ""
    if run.stack == "megatron":
        # In place: the fp32 copy becomes the softmax and then its own gradient, beside one low-precision tensor.
        # Not in place (its "native" fusion): one more fp32 tensor.
        peak = {"fused": 4.0, "parallel": w + 4.0}.get(run.cross_entropy, w + 8.0)
        how = f"{name} x {peak:g} B ({run.cross_entropy})"
        return LossBytes(forward=peak * elements, backward=peak * elements, how=how)
    if _compiled(run):
        return LossBytes(
            forward=w * elements, backward=2 * w * elements, held=w * elements, how=f"{name} x {2 * w:g} B (compiled)"
        )
    if run.cross_entropy == "fused":
        chunk = elements * smaller(1.0, float(model.hidden or 0) / model.vocab) if model.hidden else 0.0
        return LossBytes(forward=(w + 4) * chunk, backward=w * chunk, how=f"{name} in chunks, never whole")
    if run.cross_entropy == "chunked":
        pieces = max(run.cross_entropy_chunks, 1)
        if run.stack == "compile":
            # A compiled chunk takes its softmax in registers. Every chunk's loss runs backward before the first chunk's
            # product: where nothing names the logits they go as their gradients come, else both are whole.
            forward, backward = w, w + w / pieces if run.logits_released else 2 * w
        else:
            forward, backward = w + wide + copy / pieces, w + wide + w + 2 * wide / pieces
    elif run.cross_entropy == "parallel":
        # torch's own loss over a divided vocabulary is written out: its backward pass adds zeros, where the labels are
        # marked, to the exponent of the log-softmax, and multiplies the sum (distributed/tensor/parallel/loss.py).
        forward, backward = w + copy + wide, (0.0 if run.logits_released else w) + 4 * wide
    elif cast_loss:
        forward, backward = 2 * w + 4, 2 * w + 8
    else:
        # Neither the upcast nor the log-softmax keeps the logits: where nothing names them they are gone.
        forward, backward = w + copy + wide, (0.0 if run.logits_released else w) + 3 * wide
    peak = backward * elements
    if run.cross_entropy == "chunked" and run.finetune == "full":
        # Then the products: all gradients of the logits, and two gradients of the matrix, of this chunk and of those before.
        matrix = recipe.gradient * float(model.vocab) * float(model.hidden or 0) / share
        peak = larger(peak, (w if run.logits_released else 2 * w) * elements + 2 * matrix)
    return LossBytes(
        forward=forward * elements,
        backward=peak,
        held=0.0 if run.logits_released else w * elements,
        how=f"{name} x {backward:g} B at the loss's backward pass ({run.cross_entropy})",
    )


def _of_network(model: ModelSpec, run: RunSpec, recipe: Recipe) -> LossBytes:
    """Return the bytes of the losses of a network whose layers were followed.

    Cross entropy as above, with the logits named by a variable. Other losses keep what they compare, which is counted
    with the activations: their gradient comes to it, under autocast in fp32 and in the type of the products.
    """
    scale = (run.image_size / model.image_size) ** 2 if model.image_size and run.image_size else 1.0
    samples = scale * (0 if run.micro_batch is None else run.micro_batch)
    entropies, compared = samples * (model.entropy_elements or 0.0), samples * (model.compared_elements or 0.0)
    w = recipe.matmul
    cast = bool(recipe.cast) and w < 4
    forward, backward = (2 * w + 4, 2 * w + 8) if cast else (2 * w, 4 * w)
    if _compiled(run):
        forward, backward = w, 2 * w
    words = f"{entropies:.4g} elements of logits x {backward:g} B at the loss's backward pass"
    return LossBytes(
        forward=forward * entropies,
        backward=backward * entropies + (4.0 + w if cast else w) * compared,
        held=w * entropies,
        how=words if isinstance(entropies, float) and entropies else "",
    )


def _compiled(run: RunSpec) -> bool:
    """Whether the compiler makes a part of its kernels of the loss."""
    return run.stack == "compile" and run.loss_compiled and run.cross_entropy == "eager"
