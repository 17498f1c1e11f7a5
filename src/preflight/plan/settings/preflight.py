"""The YAML file of Preflight itself: the plan with every degree and every assumption said."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.errors import PreflightError
from preflight.plan.inputs.document import settings_in
from preflight.plan.inputs.requests import request_from
from preflight.plan.inputs.written import to_yaml
from preflight.plan.request import Request
from preflight.plan.settings_reason import CannotSay
from preflight.vocabulary.plan import Candidate

TITLE = "Preflight: preflight plan --config FILE"
ASIDE: tuple[str, ...] = ()
_HARDWARE = ("hardware.gpu_type", "hardware.memory_bytes", "cluster.interconnect", "cluster.inter_node")


def write(request: Request, candidate: Candidate) -> str:
    """Return the file that plans this layout again.

    Raises:
        CannotSay: The form cannot say the model or the run.
    """
    decided = msgspec.structs.replace(request, parallel=candidate.parallel, run=candidate.run)
    try:
        text = to_yaml(decided)
        read(text)
        return text
    except PreflightError as error:
        raise CannotSay(str(error)) from None


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    # Which GPU it is says nothing of layout and run, and a user's own catalog is not at hand.
    request = request_from(settings_in(text).without(_HARDWARE))
    wish, run = request.wish, request.run
    data, stage = wish.data_parallel or 1, wish.zero_stage or 0
    shard = wish.shard_size or (data if stage else 1)
    parallel = {
        "dp_replicate": data // shard,
        "dp_shard": shard,
        "zero_stage": stage,
        "tp": wish.tensor_parallel,
        "pp": wish.pipeline_parallel,
        "vp": wish.virtual_pipeline,
        "cp": wish.context_parallel,
        "ep": wish.expert_parallel,
        "sequence_parallel": wish.sequence_parallel,
        "framework": wish.framework,
        "etp": wish.expert_tensor_parallel,
        "schedule": wish.schedule or "1f1b",
        "reshard": wish.reshard is not False,
        "first_layers": wish.first_layers,
        "last_layers": wish.last_layers,
    }
    return {"parallel": parallel, "run": {name: getattr(run, name) for name in run.__struct_fields__}}
