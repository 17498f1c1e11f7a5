"""The memory of a run by formula, from what reading the script gave."""

from __future__ import annotations

import msgspec

from preflight.check.asked import Device
from preflight.check.verdict import trains
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.memory import MemoryEstimate, TimelinePoint
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def memory_of(
    facts: dict[str, Fact], model: ModelSpec | None, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate | None:
    """The memory, or the reason why it is not known; None where nothing trains."""
    from preflight.cost.memory import estimate_memory

    if not trains(facts):
        return (
            MemoryEstimate(capacity_bytes=device.capacity_bytes, reason="no PyTorch training was recognised")
            if device.capacity_bytes
            else None
        )
    if model is None or model.parameters is None:
        reason = facts["model.parameters"].reason or "the size of the model is not known"
        return MemoryEstimate(capacity_bytes=device.capacity_bytes, reason=reason)
    for key in ("batch.micro", "precision", "optimizer.name"):
        if not facts[key].known:
            return MemoryEstimate(
                capacity_bytes=device.capacity_bytes, reason=f"{key} is not known: {facts[key].reason}"
            )
    if run.length_schedule:
        return _over_schedule(model, run, parallel, device)
    return estimate_memory(model, run, parallel, device.gpu, device.capacity_bytes)


def _over_schedule(model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device) -> MemoryEstimate:
    """The memory of a run whose sequences change their length at known steps: the first stage that does not fit decides."""
    from preflight.cost.memory import estimate_memory

    timeline: list[TimelinePoint] = []
    worst: MemoryEstimate | None = None
    for first_step, tokens in run.length_schedule:
        stage = estimate_memory(
            model, msgspec.structs.replace(run, sequence_length=tokens), parallel, device.gpu, device.capacity_bytes
        )
        # Step 0 of a later stage has its optimizer states already: its peaks are those of the steady step.
        points = [p for p in stage.timeline if first_step == 0 or p.step > 0]
        timeline += [
            msgspec.structs.replace(p, step=p.step if first_step == 0 else first_step + p.step - 1) for p in points
        ]
        oom = stage.oom
        if oom is not None and first_step:
            oom = msgspec.structs.replace(
                oom, step=first_step, arithmetic=f"{tokens} tokens a sample from step {first_step} on: {oom.arithmetic}"
            )
        if (
            worst is None
            or stage.peak_bytes is None
            or (worst.peak_bytes is not None and stage.peak_bytes.mid > worst.peak_bytes.mid)
        ):
            worst = msgspec.structs.replace(stage, oom=oom)
        if stage.fits == "no":
            break
    assert worst is not None
    return msgspec.structs.replace(worst, timeline=tuple(timeline))
