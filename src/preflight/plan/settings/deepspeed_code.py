"""Lines of a training script around DeepSpeed, for what its file alone cannot say: loss, layers, optimizer, adapters."""

from __future__ import annotations

import ast
import re
from typing import Any

import msgspec

from preflight.plan.request import Request
from preflight.plan.settings.deepspeed import config_of, stands_for
from preflight.plan.training_code import before_sharding, forward_lines, optimizer_lines, read_lines
from preflight.vocabulary.plan import Candidate

TITLE = "DeepSpeed: deepspeed and the lines of train.py"
ASIDE: tuple[str, ...] = ("gradient_as_bucket_view",)
_BEGIN = "config = "


def write(request: Request, candidate: Candidate) -> str:
    """Return command and code.

    Raises:
        CannotSay: What DeepSpeed does not run.
    """
    run, parallel, cluster = candidate.run, candidate.parallel, request.cluster
    plain = msgspec.structs.replace(run, recompute="none", recompute_layers=None)
    if run.offload == "activations":
        plain = msgspec.structs.replace(plain, offload="none")
    config = config_of(msgspec.structs.replace(candidate, run=plain), with_optimizer=False)
    nodes = f" --num_nodes {cluster.nodes}" if cluster.nodes > 1 else ""
    length = [f"SEQUENCE_LENGTH = {run.sequence_length}"] if run.sequence_length else []
    stages = (
        [f"model = deepspeed.pipe.PipelineModule(list(blocks), num_stages={parallel.pp})"] if parallel.pp > 1 else []
    )
    unclipped = msgspec.structs.replace(run, clipping=False)
    lines = [
        f"# deepspeed --num_gpus {min(cluster.gpus_per_node, cluster.num_gpus)}{nodes} train.py",
        *length,
        "# blocks: the nn.ModuleList or nn.ModuleDict of the model's layers",
        f"{_BEGIN}{config!r}",
        *before_sharding(run),
        *stages,
        *optimizer_lines(unclipped),
        "engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)",
        *forward_lines(run),
    ]
    return "\n".join(lines) + "\n"


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a text of this form stands for."""
    config = next(line for line in text.split("\n") if line.startswith(_BEGIN))
    told = stands_for(ast.literal_eval(config[len(_BEGIN) :]))
    length = re.search(r"SEQUENCE_LENGTH = (\d+)", text)
    code = read_lines(text)
    code["clipping"] = told["run"]["clipping"]
    run = {**told["run"], "sequence_length": int(length[1]) if length else None, **code}
    stages = re.search(r"num_stages=(\d+)", text)
    return {"parallel": {**told["parallel"], "pp": int(stages[1]) if stages else 1}, "run": run}
