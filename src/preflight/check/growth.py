"""Memory that grows from step to step, because graphs are kept: how much, and when it runs out."""

from __future__ import annotations

import msgspec

from preflight.check.context import Context
from preflight.cost.memory import estimate_memory
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.run import RunSpec

# Rules whose findings mean that each step keeps the activations of its forward pass, when they are errors.
KEEPING = frozenset({"MEM010", "MEM013", "MEM015", "MEM017"})


def with_growth(context: Context, findings: list[Finding]) -> tuple[RunSpec, MemoryEstimate] | None:
    """The run and its memory with what each step keeps, or None where nothing is kept or the sizes are not known.

    A step that keeps its graph keeps what its layers saved for the backward pass: the activations of one forward.
    """
    memory, model = context.memory, context.model
    keeps = any(f.code in KEEPING and f.severity == "error" and f.confidence != "possible" for f in findings)
    if not keeps or memory is None or memory.breakdown is None or model is None or memory.fits == "no":
        return None
    kept = _saved(memory)
    if kept <= 0:
        return None
    run = msgspec.structs.replace(context.run, kept_bytes_per_step=kept)
    estimate = estimate_memory(model, run, context.parallel, context.gpu, context.capacity_bytes)
    if estimate.oom is not None and estimate.oom.phase == "growth":
        # The first steps fit; the run does not, unless it ends before.
        estimate = msgspec.structs.replace(estimate, fits="no", p_fit=None)
    return run, estimate


def _saved(memory: MemoryEstimate) -> float:
    """What a step has saved when its forward pass is done, without what only its backward pass needs for a moment."""
    done = [point.owners for point in memory.timeline if point.phase == "forward"]
    return max((one.get("activations", 0.0) + one.get("logits_and_loss", 0.0) for one in done), default=0.0)
