"""Bytes of activations on one rank: blocks, embeddings, images, convolutional networks, recomputation."""

from __future__ import annotations

import msgspec

from preflight.cost.activation_layout import Layout, layout_of
from preflight.cost.activations import BlockBytes, block_bytes, lingering_bytes, norm_bytes, selective_bytes
from preflight.cost.numeric import anywhere, larger, smaller, where
from preflight.cost.parameters import (
    attention_width,
    decoder_depth,
    decoder_side,
    head_kind,
    is_transformer,
    vision_tokens,
)
from preflight.cost.recipe import Recipe
from preflight.cost.shares import Share
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Activations(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of activations on one rank.

    Attributes:
        saved: What lies there when the loss is known.
        rebuilt: One block as it is recomputed in the backward pass (0 without recomputation).
        working: What the backward pass of one block allocates for a moment.
        inference: The peak of a forward pass that keeps nothing.
        source: ``architecture`` (block by block), ``layers`` (elements that were counted from the layers).
        how: How it came about.
        tokens: Tokens (or samples) behind the loss.
        lingering: What the graph of the step before still holds during a forward pass.
        passed: Buffers of what goes from stage to stage.
        host: Bytes that lie in the host's memory instead.
        points: Moments of the backward pass, where it was played through: bytes that are alive, and the share of the
            gradients that is there. Empty where the pass goes evenly from its first block to its last.
        unpacked: The part of ``working`` and ``inference`` that does not grow with the batch: a matrix out of 4 bits.
    """

    saved: float
    rebuilt: float
    working: float
    inference: float
    source: str
    how: str
    tokens: float
    lingering: float = 0.0
    passed: float = 0.0
    host: float = 0.0
    unpacked: float = 0.0
    points: tuple[tuple[float, float], ...] = ()

    def scaled(self, factor: float) -> Activations:
        """Return as many times the bytes that a graph keeps; what is unpacked and passed on stays as it is."""
        names = ("saved", "rebuilt", "lingering", "host")
        more = {name: getattr(self, name) * factor for name in names}
        more |= {
            name: self.unpacked + (getattr(self, name) - self.unpacked) * factor for name in ("working", "inference")
        }
        points = tuple((alive * factor, share) for alive, share in self.points)
        return msgspec.structs.replace(self, **more, points=points)


def missing_inputs(model: ModelSpec, run: RunSpec) -> str | None:
    """Return why activations cannot be given, or None when everything needed is known."""
    if run.micro_batch is None:
        return "the batch size is not known"
    if model.text is not None and not run.sequence_length:
        return "the sequence length of the text tower is not known"
    if is_transformer(model):
        if model.family == "vision_transformer":
            tokens = vision_tokens(model, run.image_size or model.image_size)
            return None if tokens else "the number of tokens of an image is not known"
        return None if run.sequence_length else "the sequence length is not known"
    if model.network is not None and partly_recomputed(model, run):
        return "what this recomputation keeps of a network without blocks of one kind is not known (none and full are)"
    if model.activation_elements is None and model.network is None:
        reason = f": {model.activation_reason}; a dry run would tell" if model.activation_reason else ""
        return f"what the layers keep for the backward pass is not known{reason}"
    if model.image_size and not run.image_size and model.family in ("cnn", "diffusion_model"):
        return "the image size is not known"
    return None


def partly_recomputed(model: ModelSpec, run: RunSpec) -> bool:
    """Return whether something else than nothing or every block is computed again."""
    again, layers = run.recompute_layers, model.layers
    some = again is not None and layers is not None and anywhere(again < layers)
    return run.recompute in ("selective", "op") or (run.recompute == "full" and some)


def in_flight(parallel: ParallelDims, stage: float, micro_batches: float) -> float:
    """Return how many micro-batches a stage holds at once, in units of its own blocks.

    GPipe: all m. 1F1B: min(m, p - r). Interleaved with v chunks: (p(v-1) + 2(p-r) - 1)/v, at most m (Narayanan et al.
    2021). Zero bubble (Qi et al. 2023) delays the gradients of weights: every stage holds as much as the first, p with
    the schedule ZB-H1, 2p - 1 with ZB-H2.
    """
    p, v, every = parallel.pp, parallel.vp, 1.0 * micro_batches
    if parallel.schedule == "gpipe":
        return where(p == 1, 1.0, every)
    if parallel.schedule in ("zb1p", "zb2p"):
        most = p if parallel.schedule == "zb1p" else 2 * p - 1
        return where(p == 1, 1.0, smaller(every, 1.0 * most))
    plain = smaller(every, p - stage)
    interleaved = smaller((p * (v - 1) + 2 * (p - stage) - 1) / v, every)
    return where(p == 1, 1.0, where(v > 1, interleaved, plain))


def activations_of(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, share: Share, recipe: Recipe, micro_batches: float
) -> Activations:
    """Return the activations of one rank; ``missing_inputs`` must be None."""
    if model.text is not None:
        return _two_towers(model, run, parallel, share, recipe, micro_batches)
    if model.network is not None:
        return _written(model, run, recipe)
    if not is_transformer(model):
        return _counted(model, run, recipe)
    layout = layout_of(model, run, recipe, parallel)
    if model.family == "encoder_decoder":
        return _encoder_decoder(model, run, layout, share)
    batch = run.samples
    length = (
        vision_tokens(model, run.image_size or model.image_size) or 0.0
        if model.family == "vision_transformer"
        else float(run.sequence_length or 0)
    )
    tokens, keys = batch * length / parallel.cp, length
    block = block_bytes(model, layout)
    layers = _keeping(model, run) * share.layers
    flying = in_flight(parallel, share.index, micro_batches)
    alive = 1 - recomputed_share(model, run) if run.recompute == "full" else 1.0
    total, rebuilt, kind = _recomputed(model, run, layout, block, tokens, keys, layers * flying)
    if model.dense_layers and model.experts and run.recompute != "op":
        difference = block.saved - block_bytes(model, layout, dense=True).saved
        total -= alive * difference * tokens * smaller(model.dense_layers * share.layers, layers) * flying
    one = total / larger(layers * flying, 1.0)
    total += _ends(model, run, layout, share, tokens, batch)
    host = 0.0
    if run.offload == "activations":
        host, total = total, 2 * one  # what two blocks keep is on its way
    return Activations(
        saved=total,
        rebuilt=rebuilt,
        working=(block.working + block.working_square * keys) * tokens + block.unpacked,
        inference=(block.working + block.square * keys + 2 * block.entry) * tokens + block.unpacked,
        source="architecture",
        how=_blocks_in_words(layers, tokens, block, flying, kind) if isinstance(total, float) else "",
        tokens=tokens,
        lingering=0.0 if run.longest_first else lingering_bytes(model, layout) * tokens * layers * alive,
        passed=where(parallel.pp > 1, 2 * block.entry * tokens, 0.0),  # the gradient sent back, the next input received
        host=host,
        unpacked=block.unpacked,
    )


def _blocks_in_words(layers: float, tokens: float, block: BlockBytes, flying: float, kind: str) -> str:
    """Return the arithmetic in one line."""
    return (
        f"activations: {layers:g} blocks x {tokens:.0f} tokens x {block.saved / 1e3:.1f} kB"
        + (f" + {block.square:.0f} B per key" if block.square else "")
        + (f", {flying:g} micro-batches in flight" if flying > 1 else "")
        + kind
    )


def _two_towers(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, share: Share, recipe: Recipe, micro_batches: float
) -> Activations:
    """Return image and text tower together (CLIP): what is kept adds up, what is worked on does not."""
    image = msgspec.structs.replace(model, text=None, head="none")
    towers = [activations_of(image, run, parallel, share, recipe, micro_batches)]
    if model.text is not None:
        text = msgspec.structs.replace(model.text, head="none")
        towers.append(activations_of(text, run, parallel, share, recipe, micro_batches))
    return Activations(
        saved=sum(tower.saved for tower in towers),
        rebuilt=larger(*(tower.rebuilt for tower in towers)),
        working=larger(*(tower.working for tower in towers)),
        inference=larger(*(tower.inference for tower in towers)),
        source="layers" if any(tower.source == "layers" for tower in towers) else "architecture",
        how="; ".join(tower.how for tower in towers),
        tokens=run.samples,
        lingering=sum(tower.lingering for tower in towers),
        host=sum(tower.host for tower in towers),
        unpacked=larger(*(tower.unpacked for tower in towers)),
    )


def recomputed_share(model: ModelSpec, run: RunSpec) -> float:
    """Return the share of the blocks that full recomputation covers; every stage has its share of them."""
    if run.recompute_layers is None or not model.layers:
        return 1.0
    return smaller(run.recompute_layers / model.layers, 1.0)


def _recomputed(
    model: ModelSpec, run: RunSpec, layout: Layout, block: BlockBytes, tokens: float, keys: float, layers: float
) -> tuple[float, float, str]:
    """Return the bytes kept, the bytes of one rebuilt block, and a word on it, for the kind of recomputation."""
    full = (block.saved + block.square * keys) * tokens
    if run.recompute == "full":
        part = recomputed_share(model, run)
        kept = part * block.entry * tokens + (1 - part) * full
        of = f" of {run.recompute_layers} of {model.layers} blocks" if isinstance(part, float) and part < 1 else ""
        return kept * layers, full, f", block inputs only (full recomputation{of})"
    if run.recompute == "selective":
        return block.saved * tokens * layers, block.square * keys * tokens, ", attention matrix recomputed"
    if run.recompute == "op":
        kept = smaller(selective_bytes(model, layout), block.saved)
        return kept * tokens * layers, full, ", every second product kept"
    return full * layers, 0.0, ""


def _of_sound(model: ModelSpec, run: RunSpec, layout: Layout) -> float:
    """Return bytes per token of the convolutions that read sound: nothing where they are frozen, recomputed their inputs."""
    if run.frozen_blocks is not None:
        return 0.0
    elements, normed = model.sound_elements or 0.0, model.sound_normed_elements or 0.0
    if run.recompute == "full":
        return layout.matmul * (elements + (model.samples_per_token or 0) + normed / 2) / 2
    return layout.matmul * elements + layout.residual * normed


def _ends(model: ModelSpec, run: RunSpec, layout: Layout, share: Share, tokens: float, batch: float) -> float:
    """Return what lies outside the blocks: dropout behind the embedding, the last norm, the input of the output."""
    hidden = float(model.hidden or 0)
    post_norm = model.family == "transformer_encoder"
    front = 8.0 * tokens  # token ids, int64
    if layout.dropout:
        front += layout.mask * hidden * tokens
    if post_norm:
        front += norm_bytes(model, layout) * tokens
    if model.family == "vision_transformer":
        size = float(run.image_size or model.image_size or 0)
        front = (model.channels or 3) * size * size * batch * layout.matmul
    if model.samples_per_token:
        # A positional convolution and its activation keep their inputs.
        front += (2 * layout.residual * hidden + _of_sound(model, run, layout)) * tokens
    kind, per_token = head_kind(model), 0.0
    if not post_norm:
        per_token += norm_bytes(model, layout, layout.trained)
    if kind == "lm" and layout.keeps("head"):
        per_token += layout.matmul * hidden
    if kind == "mlm":
        # A dense layer, gelu, a norm and the output matrix.
        per_token += layout.matmul * 3 * hidden + norm_bytes(model, layout)
    return where(share.first, front, 0.0) + where(share.last, per_token * tokens, 0.0)


def _encoder_decoder(model: ModelSpec, run: RunSpec, layout: Layout, share: Share) -> Activations:
    """Return encoder blocks over the source, decoder blocks with cross attention over the target."""
    batch = run.samples
    source = float(model.source_positions or run.sequence_length or 0)
    target = float(run.target_length or run.sequence_length or 0)
    encoder, decoder = block_bytes(model, layout), block_bytes(decoder_side(model), layout, cross=True)
    queries, keys = attention_width(model)
    behind_square = decoder.square / 2  # of one of its two attentions
    enc = (encoder.saved + encoder.square * source) * batch * source
    # Keys and values of cross attention have the source's length; self attention sees the target, cross the source.
    cross_keys = 2 * layout.matmul * (queries if layout.expanded else keys) / layout.tensor
    dec = (decoder.saved - cross_keys + behind_square * (target + source)) * batch * target
    # Under autocast each block casts what the encoder made once for its keys and once for its values.
    copies = 2 * layout.matmul * float(model.hidden or 0) if layout.recast and layout.trained else 0.0
    dec += (cross_keys + copies) * batch * source
    layers = _keeping(model, run) * share.layers
    behind = decoder_depth(model) * share.layers
    rebuilt, total = 0.0, enc * layers + dec * behind
    if run.recompute == "full":
        part = recomputed_share(model, run)
        entries = encoder.entry * batch * (source * layers + target * behind)
        rebuilt, total = larger(enc, dec), part * entries + (1 - part) * total
    elif run.recompute == "selective":
        squares = encoder.square * source**2 * layers + behind_square * (target**2 + source * target) * behind
        total -= batch * squares
    ends = target if run.frozen_blocks == model.layers else source + target
    total += norm_bytes(model, layout) * batch * ends
    total += layout.matmul * float(model.hidden or 0) * batch * target + 8.0 * batch * (source + target)
    if layout.dropout:
        total += 2 * layout.mask * float(model.hidden or 0) * batch * ends
    longest = max(source, target)
    working = larger(encoder.working, decoder.working)
    working_square = larger(encoder.working_square, decoder.working_square)
    square = larger(encoder.square, behind_square)
    return Activations(
        saved=total,
        rebuilt=rebuilt,
        working=(working + working_square * longest) * batch * longest,
        inference=(working + square * longest + 2 * encoder.entry) * batch * longest,
        source="architecture",
        how=f"activations: {layers:g} encoder and {behind:g} decoder blocks over {source:g} and {target:g} tokens"
        f"{_frozen_in_words(run)}"
        if isinstance(total, float)
        else "",
        tokens=batch * target,
    )


def _keeping(model: ModelSpec, run: RunSpec) -> int:
    """Return how many blocks keep something: not those at the front that are frozen with all that stands before them."""
    return max((model.layers or 0) - (run.frozen_blocks or 0), 0)


def _frozen_in_words(run: RunSpec) -> str:
    """Return how many blocks keep nothing, where there are any."""
    return f", {run.frozen_blocks} frozen ones keep nothing" if run.frozen_blocks else ""


def _written(model: ModelSpec, run: RunSpec, recipe: Recipe) -> Activations:
    """Return what a network keeps that was written down operation by operation."""
    from preflight.cost.networks.trace import trace_of

    found = trace_of(model, run, recipe.matmul, 4.0 if recipe.cast else recipe.matmul)
    assert found is not None
    batch = run.samples
    again = run.recompute != "none"
    kept = found.recomputed if again else found.kept
    words = f"activations: {kept.saved / 1e6:.4g} MB a sample x {batch:g} samples" if isinstance(batch, float) else ""
    return Activations(
        saved=kept.saved * batch,
        rebuilt=0.0,
        working=0.0,
        inference=kept.inference * batch,
        source="architecture",
        how=words + (", block inputs only (full recomputation)" if again and words else ""),
        tokens=batch,
        points=tuple((point.bytes * batch, point.gradients) for point in kept.points),
    )


def _counted(model: ModelSpec, run: RunSpec, recipe: Recipe) -> Activations:
    """Return elements counted from the layers x bytes x batch, scaled with the area of the image."""
    batch, elements = run.samples, float(model.activation_elements or 0.0)
    scale = 1.0
    if model.image_size and run.image_size:
        scale = (run.image_size / model.image_size) ** 2
    total = elements * scale * batch * recipe.matmul
    # Before the backward pass reaches it, no more than a few of the largest tensors live beside what is kept.
    largest = total / max(float(model.layers or 1), 4.0)
    note = "; recomputation is not counted: an upper bound" if run.recompute != "none" else ""
    return Activations(
        saved=total,
        rebuilt=0.0,
        working=largest,
        inference=2 * largest,
        source="layers",
        how=f"activations: {elements:.3g} elements a sample x {scale:.3g} (image area) x {batch:g} samples x "
        f"{recipe.matmul:g} B{note}"
        if isinstance(total, float)
        else "",
        tokens=batch,
    )
