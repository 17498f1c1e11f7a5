"""What the matrix of attention scores costs where it is written out, and what flash attention saves."""

from __future__ import annotations

import msgspec

from preflight.cost.memory import estimate_memory
from preflight.cost.parameters import is_transformer
from preflight.plan.changes import layout_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import AttentionMemory


def attention_of(request: Request) -> AttentionMemory | None:
    """Return memory with and without the matrix of scores, or None for models without attention.

    The matrix has heads x length x length elements for every sample and layer, so that it grows with the square of the
    length; flash attention keeps one number for every row of it (Dao et al. 2022, arXiv 2205.14135).
    """
    model, run, parallel, gpu = request.model, request.run, layout_of(request), request.cluster.gpu
    if not is_transformer(model):
        return None
    with_flash, written = (
        estimate_memory(model, msgspec.structs.replace(run, attention=kind), parallel, gpu)
        for kind in ("flash", "math")
    )
    if with_flash.device_bytes is None or written.device_bytes is None:
        return None
    return AttentionMemory(
        kind=run.attention,
        flash_bytes=with_flash.device_bytes.mid,
        written_bytes=written.device_bytes.mid,
        flash_fits=with_flash.fits,
        written_fits=written.fits,
    )
