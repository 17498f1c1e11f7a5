"""Which kernel of attention CUDA would take."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "math"), ("bfloat16", "flash")])
def test_keys_that_heads_share_have_no_memory_efficient_kernel(dtype: str, kind: str) -> None:
    from preflight.dryrun.virtual.engine.attention import choose

    query, key = (torch.empty(1, heads, 8, 64, dtype=getattr(torch, dtype)) for heads in (8, 2))
    assert choose(query, key, key, None, (9, 0), grouped=True) == kind
    assert choose(query, query, query, None, (9, 0), grouped=True) == ("efficient" if kind == "math" else kind)
