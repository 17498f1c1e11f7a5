"""A command line and the lines of code that run a model with PyTorch's own DDP, FSDP2 and other parallelisms."""

from __future__ import annotations

import re
from typing import Any

from preflight.plan.parallel_code import mesh_lines, model_lines, pipeline_lines, read_layout, sharded_lines
from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.plan.settings_reason import CannotSay
from preflight.plan.training_code import before_sharding, forward_lines, optimizer_lines, read_lines
from preflight.vocabulary.plan import Candidate

TITLE = "PyTorch: torchrun and the lines of train.py"
ASIDE: tuple[str, ...] = ()
_MIXED = ("bf16", "fp8", "fp16")
_PURE = {"pure-bf16": "torch.bfloat16", "pure-fp16": "torch.float16", "fp64": "torch.float64"}


def write(request: Request, candidate: Candidate) -> str:
    """Return command and code.

    Raises:
        CannotSay: Other frameworks, weights in two widths without FSDP2.
    """
    run, parallel, cluster = candidate.run, candidate.parallel, request.cluster
    _check(candidate)
    nodes = f" --nnodes {cluster.nodes}" if cluster.nodes > 1 else ""
    lines = [
        f"# torchrun --nproc_per_node {min(cluster.gpus_per_node, cluster.num_gpus)}{nodes} train.py",
        f"MICRO_BATCH = {run.micro_batch}",
        f"ACCUMULATE = {accumulation(candidate)}  # {run.global_batch} samples a step on {cluster.num_gpus} GPUs",
    ]
    if run.sequence_length:
        lines.append(f"SEQUENCE_LENGTH = {run.sequence_length}")
    lines += ["", "# blocks: the nn.ModuleList or nn.ModuleDict of the model's layers"]
    if run.precision in _PURE:
        lines.append(f"model = model.to({_PURE[run.precision]})")
    if run.precision == "fp8":
        lines += ["from torchao.float8 import convert_to_float8_training", "model = convert_to_float8_training(model)"]
    plain = parallel.zero_stage == 0 and parallel.tp * parallel.pp * parallel.cp * parallel.ep == 1
    if not plain:
        lines += ["", *mesh_lines(parallel), *model_lines(parallel)]
    lines += before_sharding(run)
    if parallel.zero_stage:
        lines += ["", *sharded_lines(candidate)]
    elif parallel.dp_replicate > 1:
        lines += ["", *_replicated(candidate, plain)]
    lines += pipeline_lines(parallel)
    lines += ["", *optimizer_lines(run), "", *forward_lines(run, parallel.cp)]
    return "\n".join(lines) + "\n"


def _check(candidate: Candidate) -> None:
    """Raise for what plain PyTorch does not run."""
    run, parallel = candidate.run, candidate.parallel
    if parallel.framework not in (None, "ddp", "fsdp2"):
        raise CannotSay(f"the layout was planned for {parallel.framework}")
    if parallel.zero_stage == 1:
        raise CannotSay("FSDP2 shards gradients too (ZeRO 2 or 3)")
    if run.precision in _MIXED and not parallel.zero_stage:
        raise CannotSay(f"plain PyTorch has no fp32 weights beside those of {run.precision}: autocast-bf16, or FSDP2")
    if run.offload == "optimizer" or (run.offload == "parameters" and not parallel.zero_stage):
        raise CannotSay("only FSDP2 offloads, and it takes weights and states together")


def _replicated(candidate: Candidate, plain: bool) -> list[str]:
    view = candidate.run.gradient_as_bucket_view
    within = "" if plain else ', device_mesh=mesh["dp_replicate"]'
    return [
        "from torch.nn.parallel import DistributedDataParallel",
        f"model = DistributedDataParallel(model, device_ids=[local_rank], gradient_as_bucket_view={view}{within})",
    ]


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a text of this form stands for."""

    def number(pattern: str) -> int | None:
        found = re.search(pattern, text)
        return int(found[1]) if found else None

    gpus = (number(r"--nproc_per_node (\d+)") or 1) * (number(r"--nnodes (\d+)") or 1)
    layout = read_layout(text, gpus)
    micro, ranks = number(r"MICRO_BATCH = (\d+)") or 1, layout["dp_replicate"] * layout["dp_shard"]
    run: dict[str, Any] = {
        "micro_batch": micro, "global_batch": micro * (number(r"ACCUMULATE = (\d+)") or 1) * ranks,
        "sequence_length": number(r"SEQUENCE_LENGTH = (\d+)"), "gradient_as_bucket_view": "bucket_view=True" in text,
    }  # fmt: skip
    if "CPUOffloadPolicy()" in text:
        run["offload"] = "parameters"
    return {"parallel": layout, "run": {"precision": _precision(text), **run, **read_lines(text)}}


def _precision(text: str) -> str:
    """Return the precision that policies and conversions tell; autocast is read elsewhere, and wins."""
    if "convert_to_float8_training" in text:
        return "fp8"
    for kind, dtype in (("bf16", "bfloat16"), ("fp16", "float16")):
        if f"param_dtype=torch.{dtype}," in text:
            return kind
    return next((kind for kind, dtype in _PURE.items() if f"model.to({dtype})" in text), "fp32")
