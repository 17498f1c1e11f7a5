"""Lines of a training script that divide a model with PyTorch's own parallelisms: one mesh, an axis for each."""

from __future__ import annotations

import re
from typing import Any

from preflight.plan.settings_reason import CannotSay
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims

_AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
_SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}
_INTERLEAVED = "ScheduleInterleaved1F1B"
_POLICIES = {"bf16": "torch.bfloat16", "fp8": "torch.bfloat16", "fp16": "torch.float16"}


def mesh_lines(dims: ParallelDims) -> list[str]:
    """Return the mesh: an axis for every degree above 1."""
    sizes = {axis: getattr(dims, axis) for axis in _AXES if getattr(dims, axis) > 1}
    if not sizes:
        return []
    shape = ", ".join(str(size) for size in sizes.values()) + ("," if len(sizes) == 1 else "")
    names = ", ".join(f'"{axis}"' for axis in sizes) + ("," if len(sizes) == 1 else "")
    return [
        "from torch.distributed.device_mesh import init_device_mesh",
        f'mesh = init_device_mesh("cuda", ({shape}), mesh_dim_names=({names}))',
    ]


def model_lines(dims: ParallelDims) -> list[str]:
    """Return tensor and expert parallelism, which come before sharding; names of modules are those of Llama."""
    lines = []
    if dims.tp > 1:
        lines += [
            "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module",
            'columns = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"]',
            'rows = ["self_attn.o_proj", "mlp.down_proj"]',
            "tensor = {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}}",
        ]
        if dims.sequence_parallel:
            lines.append(
                'tensor |= {name: SequenceParallel() for name in ("input_layernorm", "post_attention_layernorm")}'
            )
        lines += ["for block in blocks.children():", '    parallelize_module(block, mesh["tp"], tensor)']
    if dims.ep > 1:
        lines += [
            "from torchtitan.distributed.expert_parallel import ExpertParallel",
            f'experts = init_device_mesh("cuda", ({dims.world_size // dims.ep}, {dims.ep}), mesh_dim_names=("copies", "ep"))',
            "for block in blocks.children():",
            '    parallelize_module(block.mlp.experts, experts["ep"], ExpertParallel())',
        ]
        if dims.tp == 1:
            lines.insert(0, "from torch.distributed.tensor.parallel import parallelize_module")
    return lines


def sharded_lines(candidate: Candidate) -> list[str]:
    """Return FSDP2 over the data-parallel axes, with those of context parallelism among them."""
    run, dims = candidate.run, candidate.parallel
    axes = [axis for axis in ("dp_replicate", "dp_shard") if getattr(dims, axis) > 1]
    lines = ["from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard"]
    if dims.cp > 1:
        lines.append('mesh["dp_shard", "cp"]._flatten("shard")')
        axes = ["shard" if axis == "dp_shard" else axis for axis in axes]
    told = [f"mesh=mesh[{', '.join(repr(axis) for axis in axes)}]".replace("'", '"')]
    kind = _POLICIES.get(run.precision)
    if kind:
        told.append(f"mp_policy=MixedPrecisionPolicy(param_dtype={kind}, reduce_dtype=torch.float32)")
    if run.offload == "parameters":
        told.append("offload_policy=CPUOffloadPolicy()")
    if dims.zero_stage == 2 or not dims.reshard:
        told.append("reshard_after_forward=False")
    lines += [
        f"sharded = dict({', '.join(told)})",
        "for block in blocks.children():",
        "    fully_shard(block, **sharded)",
        "fully_shard(model, **sharded)",
    ]
    if dims.zero_stage == 2:
        lines.append("model.set_reshard_after_backward(False)  # weights stay whole: gradients and states are sharded")
    return lines


def pipeline_lines(dims: ParallelDims) -> list[str]:
    """Return the stages of a pipeline and their schedule.

    Raises:
        CannotSay: PyTorch has no such schedule.
    """
    if dims.pp == 1:
        return []
    schedule = _INTERLEAVED if dims.vp > 1 and dims.schedule == "1f1b" else _SCHEDULES.get(dims.schedule)
    if schedule is None or (dims.vp > 1 and schedule != _INTERLEAVED):
        raise CannotSay(f"it has no {dims.schedule} schedule of {dims.vp} virtual stages on a rank")
    stages = "stages" if dims.vp > 1 else "stages[0]"
    return [
        f"from torch.distributed.pipelining import PipelineStage, {schedule}",
        f"VIRTUAL_STAGES = {dims.vp}",
        "# parts: (index, module) of each of this rank's stages",
        f"stages = [PipelineStage(part, index, {dims.pp} * VIRTUAL_STAGES, device) for index, part in parts]",
        f"schedule = {schedule}({stages}, ACCUMULATE, loss_fn=loss_of)  # loss_of(output, labels): the loss below",
    ]


def read_layout(text: str, gpus: int) -> dict[str, Any]:
    """Return the layout of lines of this form."""
    mesh = re.search(r'mesh = init_device_mesh\("cuda", \(([^)]*)\), mesh_dim_names=\(([^)]*)\)', text)
    sizes = [int(size) for size in mesh[1].split(",") if size.strip()] if mesh else []
    named = dict(zip(re.findall(r'"(\w+)"', mesh[2]), sizes, strict=True)) if mesh else {"dp_replicate": gpus}
    virtual, experts = re.search(r"VIRTUAL_STAGES = (\d+)", text), re.search(r"experts = .*\(\d+, (\d+)\)", text)
    sharded = "fully_shard(" in text
    stage = 2 if "set_reshard_after_backward(False)" in text else 3
    kept = "reshard_after_forward=False" in text
    return {
        **{axis: named.get(axis, 1) for axis in _AXES},
        "vp": int(virtual[1]) if virtual else 1, "ep": int(experts[1]) if experts else 1,
        "zero_stage": stage if sharded else 0, "reshard": not (sharded and kept and stage == 3),
        "sequence_parallel": "SequenceParallel()" in text,
        "schedule": "gpipe" if "schedule = ScheduleGPipe" in text else "1f1b",
    }  # fmt: skip
