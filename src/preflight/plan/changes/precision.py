"""Compute in 16 bits instead of fp32, in fp8 instead of bf16 where the GPU can."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import half_of
from preflight.cost.parameters import is_transformer
from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request


def options(request: Request) -> list[Change]:
    """Return the next narrower type that the GPU has."""
    run, peaks = request.run, request.cluster.gpu.peak_flops
    half = half_of(request.cluster.gpu)
    if run.precision in ("fp32", "tf32") and peaks.get(half):
        changed = msgspec.structs.replace(run, precision=f"autocast-{half}")
        side = "lower precision in matrix products" + ("; needs a GradScaler" if half == "fp16" else "")
        return [
            Change(key="precision", title=f"{run.precision} -> {half} autocast", run=changed, parallel=layout_of(request),
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
