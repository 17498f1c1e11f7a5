"""What a dry run of a script on one virtual GPU says for a plan: parameters, what is kept for a sample, seconds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.cost.workspace import cublas_workspace
from preflight.errors import InputError
from preflight.plan.request import Measured
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Report

_FAMILIES = ("transformer_decoder", "transformer_encoder", "encoder_decoder", "moe", "vision_transformer")
# What the formulas add to the kept bytes of counted layers for the backward pass of the largest: a quarter.
_WORKING = 1.25


class Seen(msgspec.Struct, frozen=True):
    """What a dry run saw.

    Attributes:
        facts: What it settled of the facts that were read.
        parameters: Of the model, where a run tells them. kept: Bytes for a micro-batch beside weights and states.
        width: Bytes of an element of a product. micro_batch: Samples of a forward pass.
        measured: Seconds. notes: What must be said about it.
    """

    facts: dict[str, Fact]
    parameters: int | None
    kept: float | None
    width: float
    micro_batch: int | None
    measured: Measured | None
    notes: tuple[str, ...]

    def model_for(self, model: ModelSpec | None) -> ModelSpec | None:
        """Return the model: as read where formulas know its layers, else with the bytes that were seen."""
        if model is not None and model.family in _FAMILIES and model.layers and model.heads:
            return model
        total = self.parameters or (model.parameters if model is not None else None)
        if total is None or self.kept is None or not self.micro_batch:
            return model
        elements = self.kept / _WORKING / self.micro_batch / self.width
        return ModelSpec(
            family="other",
            name=model.name if model is not None else None,
            parameters=total,
            activation_elements=elements,
        )


def seen_of(path: str, arguments: tuple[str, ...] | None, gpu: str, catalog: tuple[str, ...]) -> Seen:
    """Run a script, guarded, on a virtual GPU.

    Raises:
        InputError: The script failed, or its memory did not become known.
        UsageError: The GPU is not known, or no PyTorch is there to run it.
    """
    from preflight.check.asked import Options
    from preflight.check.session import check_script
    from preflight.source.script import read_script

    options = Options(gpu=gpu, arguments=arguments, catalog=catalog, dry_run=True, probe=False, what_fits=False)
    report = check_script(read_script(Path(path)), options)
    memory = report.memory
    if memory is None or memory.breakdown is None or memory.method != "dry-run":
        raise InputError(
            f"{path}: the dry run gave no memory", f"preflight check {path} --dry-run --gpu {gpu} says why"
        )
    micro = report.facts["batch.micro"].value
    precision = str(report.facts["precision"].value or "fp32")
    return Seen(
        facts=report.facts,
        parameters=_whole(report.facts["model.parameters"].value),
        kept=_kept(
            memory,
            precision,
            _whole(report.facts["model.parameters"].value) or 0,
            cublas_workspace(resolve_gpu(gpu, catalog)),
        ),
        width=2.0 if "16" in precision or "fp8" in precision else 4.0,
        micro_batch=_whole(micro),
        measured=_measured(report, _whole(micro), gpu),
        notes=_notes(path, memory),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _kept(memory: MemoryEstimate, precision: str, parameters: int, workspace: float) -> float | None:
    """Return the most that forward and backward passes held in the last step that was run, for the layers alone.

    Weights, states, the workspace of products and the casts that autocast keeps are left out: formulas add them again.
    """
    parts, peak = memory.breakdown, memory.peak_bytes
    points = [point for point in memory.timeline if point.phase in ("forward", "backward")]
    if parts is None or peak is None or not points:
        return None
    last = max(point.step for point in points)
    most = max(point.allocated_bytes for point in points if point.step == last)
    fixed = parts.model_parameters + (parts.optimizer_states if last else 0.0)
    if any(point.allocated_bytes >= peak.mid for point in memory.timeline):
        fixed += min(parts.workspace, workspace)  # the run itself asked for it
    if precision.startswith("autocast"):
        fixed += 2.0 * parameters
    return max(most - fixed, 0.0) or None


def _measured(report: Report, micro: int | None, gpu: str) -> Measured | None:
    spent = (report.step or {}).get("breakdown")
    pieces = report.facts["gradient_accumulation"].value or 1
    if not spent or micro is None or not spent.get("compute"):
        return None
    return Measured(
        micro_batch=micro, compute=spent["compute"] / pieces, host=(spent.get("host") or 0.0) / pieces, gpu=gpu
    )


def _notes(path: str, memory: MemoryEstimate) -> tuple[str, ...]:
    held = memory.device_bytes
    if held is None:
        return ()
    return (
        f"a dry run of {path} on one GPU holds {format_bytes(held.mid)}; its tensors are the source of what a sample keeps",
    )
