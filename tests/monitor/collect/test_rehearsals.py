"""What is computed with tensors that have no memory trains nothing, and is not told of."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.monitor.library_of import shipped  # noqa: E402

pytestmark = pytest.mark.torch


def _train(steps: int) -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.arange(8) % 3)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return net


def _fake() -> AbstractContextManager[Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode: AbstractContextManager[Any] = FakeTensorMode()
    return mode


@contextlib.contextmanager
def _meta() -> Any:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("without_memory", [_fake, _meta])
@pytest.mark.parametrize("before", [0, 4])
def test_a_rehearsal_is_no_training(without_memory: Callable[[], AbstractContextManager[Any]], before: int) -> None:
    torch.manual_seed(0)
    with recorded(detail_first=50) as kept:
        _train(before)
        with without_memory():
            _train(3)
        _train(6)
    assert kept.table("trouble") == []
    for name in ("forward", "backward", "step", "scheduler.step"):
        assert len(kept.calls(name)) == before + 6, name
    assert sum(row["name"] == "loss" for row in kept.table("scalar")) == before + 6
    engine = Engine(shipped())
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    assert engine.violations() == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_pass_by_without_trouble() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 2)
    padded = torch.arange(6)[None] >= torch.tensor([6, 4, 3, 5])[:, None]
    ragged = [torch.randn(length, 8) for length in (2, 5, 3)]
    with recorded(detail_first=50) as kept:
        torch.optim.SGD(net.parameters(), lr=0.1)
        net.eval()
        with torch.no_grad():
            for _ in range(2):
                net(torch.randn(4, 6, 8), src_key_padding_mask=padded)  # made nested inside, where the way is short
            for layout in (torch.strided, torch.jagged):
                net.layers[0].linear1(torch.nested.nested_tensor(ragged, layout=layout))
    assert kept.table("trouble") == []
    assert len(kept.calls("forward")) >= 4
    assert all(type(size) is int for row in kept.table("tensor") for size in row["shape"])
