"""Compute in bf16 instead of fp32, in fp8 instead of bf16 where the GPU can."""

from __future__ import annotations

import msgspec

from preflight.cost.parameters import is_transformer
from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the next narrower type that the GPU has."""
    run, peaks = request.run, request.cluster.gpu.peak_flops
    if run.precision in ("fp32", "tf32") and peaks.get("bf16"):
        changed = msgspec.structs.replace(run, precision="autocast-bf16")
        side = "lower precision in matrix products"
        return [
            Change(key="precision", title=f"{run.precision} -> bf16 autocast", run=changed, parallel=layout_of(request),
                   side_effect=side, exact=False)
        ]  # fmt: skip
    if run.finetune == "qlora":
        return []  # its weights are stored in four bits, and widened for each product
    if run.precision in ("bf16", "autocast-bf16") and peaks.get("fp8") and is_transformer(request.model):
        changed = msgspec.structs.replace(run, precision="fp8")
        side = "matrix products in 8 bits: watch the loss; needs Transformer Engine or torchao"
        return [
            Change(key="precision", title=f"{run.precision} -> fp8 products", run=changed, parallel=layout_of(request),
                   side_effect=side, exact=False)
        ]  # fmt: skip
    return []
