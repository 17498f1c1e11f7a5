"""A cross entropy that does not keep all logits in fp32."""

from __future__ import annotations

import msgspec

from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request

_SMALL = 8192


def options(request: Request) -> list[Change]:
    """Return another loss, where the vocabulary is large enough to matter: fused, or in place where Megatron-LM has that."""
    run, vocab = request.run, request.model.vocab or 0
    if run.cross_entropy != "eager" or vocab <= _SMALL:
        return []
    if run.stack == "megatron":
        changed = msgspec.structs.replace(run, cross_entropy="parallel")
        title = f"the loss over {vocab:,} words in place instead of Megatron-LM's fused one"
        return [Change(key="cross_entropy", title=title, run=changed, parallel=layout_of(request))]
    changed = msgspec.structs.replace(run, cross_entropy="fused")
    title = f"fused linear cross entropy over the {vocab:,} words"
    side = "another kernel (Liger, cut cross entropy)"
    return [Change(key="cross_entropy", title=title, run=changed, parallel=layout_of(request), side_effect=side)]
