"""What the memory rules say in common: where it runs out, with the arithmetic, and what would fit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.rule import Rule
from preflight.cost.memory import estimate_memory, max_micro_batch
from preflight.vocabulary.finding import Confidence, Finding
from preflight.vocabulary.quantity import format_bytes

PARTS = (
    ("model_parameters", "parameters"),
    ("gradients", "gradients"),
    ("optimizer_states", "optimizer states"),
    ("activations", "activations"),
    ("logits_and_loss", "logits and loss"),
    ("communication_buffers", "communication buffers"),
    ("workspace", "workspace"),
    ("fragmentation", "fragmentation"),
    ("context", "context"),
)


def runs_out_in(context: Context, *phases: str) -> bool:
    """Whether the memory runs out, and does so first in one of the phases."""
    memory = context.memory
    return memory is not None and memory.fits == "no" and memory.oom is not None and memory.oom.phase in phases


def place_of_model(context: Context) -> Place:
    """Where a finding about memory points: the call that makes the model."""
    models = context.reading.models
    return models[0] if models else (context.reading.script, context.reading.script.tree)


def overflow(context: Context, rule: Rule, what: str) -> Iterator[Finding]:
    """The finding that the memory runs out."""
    memory, model = context.memory, context.model
    assert memory is not None
    assert memory.oom is not None
    if memory.method == "dry-run":
        return  # the run knows the request that had no room; see run_memory
    assert context.capacity_bytes is not None
    capacity = format_bytes(context.capacity_bytes)
    needed = memory.device_bytes.mid if memory.device_bytes is not None else None
    least = f"at least {format_bytes(memory.least_bytes)}" if memory.least_bytes is not None else "more"
    need = f"needs {format_bytes(needed) if needed is not None else least}, the GPU has {capacity}"
    phase = {"init": "while the model is placed on the GPU", "eval": "in the evaluation"}.get(
        memory.oom.phase, f"in the {memory.oom.phase} of step {memory.oom.step}"
    )
    evidence = [Evidence("capacity of the GPU", context.capacity_bytes, "bytes", "published")]
    if needed is not None and memory.device_bytes is not None:
        low, high = format_bytes(memory.device_bytes.low), format_bytes(memory.device_bytes.high)
        evidence.append(
            Evidence("needed at the peak", round(needed), "bytes", "derived", f"{_sum(context)} ({low} to {high})")
        )
    if memory.oom.arithmetic:
        evidence.append(
            Evidence(
                "first phase that does not fit",
                f"{memory.oom.phase} of step {memory.oom.step}",
                None,
                "derived",
                memory.oom.arithmetic,
            )
        )
    longest = _longest_that_fits(context)
    message = f"memory overflow: {what} {need}; it runs out {phase}"
    if context.run.variable_length and longest is not None:
        message += f", at the first batch whose longest sample exceeds {longest} tokens"
        evidence.append(
            Evidence(
                "longest sample that fits",
                longest,
                "tokens",
                "derived",
                "largest sequence length whose peak stays below the capacity",
            )
        )
    confidence: Confidence | None = (
        None
        if model is not None and model.name is not None or memory.p_fit is not None and memory.p_fit < 0.01
        else "likely"
    )
    yield context.finding(
        rule, place_of_model(context), message, evidence=evidence, fix=_fix(context), confidence=confidence
    )


def _sum(context: Context) -> str:
    memory = context.memory
    if memory is None or memory.breakdown is None:
        return ""
    parts = [(label, getattr(memory.breakdown, name)) for name, label in PARTS]
    return " + ".join(
        f"{label} {format_bytes(value)}" for label, value in parts if value > 0.005 * memory.breakdown.total
    )


def _fix(context: Context) -> Fix:
    from preflight.cost.alternatives import alternatives

    if context.model is None or context.model.parameters is None:
        return Fix(
            title="use a larger GPU, or shard the model over several",
            instruction="the layers whose size is known do not fit alone",
            expected="the run fits",
        )
    if (evaluated := _without_gradients(context)) is not None:
        return evaluated
    micro = context.run.micro_batch or 1
    fits = max_micro_batch(context.model, context.run, context.parallel, context.capacity_bytes or 0, context.gpu)
    if 0 < fits < micro:
        return _smaller(micro, fits, micro * context.run.gradient_accumulation)
    options = alternatives(context.model, context.run, context.parallel, context.gpu, context.capacity_bytes)
    best = next((o for o in options if o.fits == "yes"), options[0] if options else None)
    if best is not None:
        return Fix(
            title=best.change, instruction=best.change, expected=f"needs {format_bytes(best.device_bytes)} instead"
        )
    return Fix(
        title="use a larger GPU, or shard the model over several",
        instruction="no single change of this run makes it fit",
        expected="the run fits",
    )


def _without_gradients(context: Context) -> Fix | None:
    """Turning gradients off where nothing but an evaluation that records them runs out, and where that makes it fit."""
    memory, run, model = context.memory, context.run, context.model
    if memory is None or memory.oom is None or memory.oom.phase != "eval" or model is None:
        return None
    if not run.evaluation_without_no_grad:
        return None
    off = msgspec.structs.replace(run, evaluation_without_no_grad=False)
    found = estimate_memory(model, off, context.parallel, context.gpu, context.capacity_bytes)
    if found.fits != "yes" or found.device_bytes is None:
        return None
    return Fix(
        title="turn gradients off in the evaluation",
        instruction="put its loop under `with torch.no_grad():`, or decorate its function with @torch.no_grad()",
        expected=f"needs {format_bytes(found.device_bytes.mid)} instead",
    )


def _smaller(micro: int, fits: int, samples: int) -> Fix:
    """A batch that fits, accumulated to the samples that a GPU gave to an optimizer step before."""
    even = next(batch for batch in range(fits, 0, -1) if samples % batch == 0)
    # 7 samples are 7 batches of one: rather another number of samples than many small batches.
    batch = even if 2 * even > fits else fits
    steps = -(-samples // batch)
    kept = batch * steps == samples
    largest = "" if batch == fits else f" (up to {fits} fit)"
    return Fix(
        title=f"lower the batch per GPU from {micro} to {batch} and accumulate gradients over {steps} batches",
        instruction=f"a batch of {batch} fits{largest}; accumulation over {steps} "
        + ("keeps the batch of an optimizer step" if kept else f"makes {batch * steps} samples of {samples}"),
        expected="the run fits; "
        + ("the same number of samples per optimizer step" if kept else "slightly more samples per optimizer step"),
    )


def _longest_that_fits(context: Context) -> int | None:
    length, model = context.run.sequence_length, context.model
    if length is None or model is None or context.capacity_bytes is None:
        return None
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        run = msgspec.structs.replace(context.run, sequence_length=middle)
        fits = estimate_memory(model, run, context.parallel, context.gpu, context.capacity_bytes).fits
        low, high = (middle, high) if fits == "yes" else (low, middle - 1)
    return low or None
