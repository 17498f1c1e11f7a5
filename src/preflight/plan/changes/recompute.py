"""Recompute activations in the backward pass: nothing, the attention matrix, every second product, every block."""

from __future__ import annotations

import msgspec

from preflight.cost.parameters import is_transformer
from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request
from preflight.vocabulary.run import Recompute

_WORDS: dict[Recompute, str] = {
    "none": "no recomputation", "selective": "recompute the attention matrix",
    "op": "recompute every second matrix product", "full": "recompute every block (activation checkpointing)",
}  # fmt: skip


def options(request: Request) -> list[Change]:
    """Return the kinds that differ from the present one.

    The attention matrix only where there is one; by operator only where the layers are not those of Megatron-LM.
    """
    run, found = request.run, []
    whole = is_transformer(request.model)
    if not request.model.layers or not (whole or request.model.network):
        return []
    for kind, words in _WORDS.items():
        if not whole and kind not in ("none", "full"):
            continue
        if kind == run.recompute or (kind == "selective" and run.attention not in ("eager", "math")):
            continue
        if kind == "op" and run.stack == "megatron":
            continue
        changed = msgspec.structs.replace(run, recompute=kind)
        found.append(Change(key="recompute", title=words, run=changed, parallel=layout_of(request)))
    return found
