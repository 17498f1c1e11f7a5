"""Whether a form says all of a plan: what was read back is held against what was planned."""

from __future__ import annotations

from typing import Any

from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims, RunSpec

# What somebody decides who starts a run; the rest of a run is found out from its code or its data.
_DECIDED = (
    "micro_batch", "global_batch", "sequence_length", "precision", "optimizer", "optimizer_momentum", "attention", "recompute",
    "recompute_layers", "stack", "cross_entropy", "cross_entropy_chunks", "finetune", "lora_rank", "lora_targets",
    "lora_dropout", "double_quantization", "quantized_head", "offload", "clipping", "deterministic", "fp8_weights",
    "tensor_overlap", "cuda_graphs", "expert_capacity", "expert_padding", "fused_backward", "ema", "gradient_as_bucket_view",
)  # fmt: skip
_ONLY_WITH = {
    "cross_entropy_chunks": ("cross_entropy", ("chunked",)), "lora_targets": ("finetune", ("lora", "qlora")),
    "lora_rank": ("finetune", ("lora", "qlora")), "lora_dropout": ("finetune", ("lora", "qlora")),
    "double_quantization": ("finetune", ("qlora",)), "quantized_head": ("finetune", ("qlora",)),
}  # fmt: skip


class CannotSay(Exception):
    """A framework does not run a layout, or its form has no place for a part of it; the text is the reason."""


def left_out(told: dict[str, dict[str, Any]], candidate: Candidate, aside: frozenset[str]) -> list[str]:
    """Return what a form does not say of a plan, or says otherwise, in words."""
    return [*_of_layout(told["parallel"], candidate.parallel), *_of_run(told["run"], candidate.run, aside)]


def _of_layout(told: dict[str, Any], dims: ParallelDims) -> list[str]:
    usual = ParallelDims()
    found = []
    for name in ParallelDims.__struct_fields__:
        planned, said = getattr(dims, name), told.get(name, getattr(usual, name))
        if name == "framework":
            continue
        if name == "etp":
            planned, said = planned or dims.tp, said or dims.tp
        if name == "reshard" and dims.zero_stage < 3:
            continue
        if name == "schedule" and dims.pp == 1:
            continue
        if planned != said:
            found.append(f"{name} {_worded(planned)}")
    return found


def _of_run(told: dict[str, Any], run: RunSpec, aside: frozenset[str]) -> list[str]:
    usual = RunSpec()
    found = []
    for name in _DECIDED:
        other, values = _ONLY_WITH.get(name, ("", ()))
        if name in aside or (other and getattr(run, other) not in values):
            continue
        planned, said = getattr(run, name), told.get(name, getattr(usual, name))
        if name == "optimizer":
            planned, said = spelled(planned), spelled(said)
        if name == "optimizer_momentum":
            planned, said = planned or None, said or None
        if name == "stack":
            planned = "eager" if planned == "transformers" else planned
        if planned != said:
            found.append(f"{name} {_worded(planned)}")
    return found


def spelled(optimizer: str | None) -> str | None:
    """Return an optimizer's name without what spellings differ in."""
    return optimizer.lower().replace("_", "").replace("-", "") if optimizer else None


def _worded(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
