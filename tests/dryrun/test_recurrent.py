"""Recurrent layers as cuDNN runs them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("name", "published"), [("lstm", 736_000_000), ("gru", 864_000_000)])
def test_reserve_space_is_what_cudnn_asked_for(name: str, published: int) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from preflight.dryrun.virtual.engine import recurrent

    fake = FakeTensorMode()
    with fake:
        x, state = torch.empty(500, 50, 123), torch.empty(4, 50, 320)
    cell = state if name == "lstm" else None
    given = (x, [], 4, None, state, cell, recurrent.MODES[name], 320, 0, 4, False, 0.0, True, False, [], None)
    made = recurrent._forward(SimpleNamespace(fake=fake, device="cpu"), None, given, {})
    assert made[3].numel() == published
