"""``nn.DataParallel`` over several GPUs, followed on the first of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))

    def forward(self, x, y=None):
        assert x.shape[0] == 1000, x.shape
        out = self.layers(x)
        return out if y is None else nn.functional.mse_loss(out, y)

model = nn.DataParallel(Net().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    out = model(torch.randn(3998, 1024))
    assert out.shape == (3998, 1024), out.shape
    loss = model(torch.randn(4000, 1024), torch.randn(4000, 1024))
    assert loss.shape == (4,)
    (out.mean() + loss.mean()).backward()
    assert model.module.layers[0].weight.grad.shape == (4096, 1024)
    optimizer.step()
    optimizer.zero_grad()
"""
MIB = 1 << 20


def test_the_first_gpu_has_its_share_of_the_batch_and_the_outputs_of_all(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    seen = dry_run(
        Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=150, devices=4)
    )
    assert (seen.outcome, seen.steps) == ("ended", 3), (seen.error, seen.message, seen.frames)
    assert any("nn.DataParallel over 4 GPUs" in line for line in seen.assumptions)
    forward = next(t for t in seen.timeline if (t.step, t.phase) == (1, "forward"))
    # In MiB, while the second ReLU runs: inputs of 1000 rows 3.9, what came out of the first ReLU 16 (rounded by the
    # allocator), the outputs of all 16; inputs and targets 3.9 each, what the ReLU is given and gives 16 each; parameters
    # 32, and cuBLAS 8.1 for the forward and for the backward thread.
    expected = 3.9 + 16 + 16 + 2 * 3.9 + 2 * 16 + 32 + 2 * 8.1
    assert forward.allocated / MIB == pytest.approx(expected, rel=0.01)
    backward = next(t for t in seen.timeline if (t.step, t.phase) == (1, "backward"))
    # The gradients of the replica and their sums over all GPUs, beside the parameters.
    assert backward.allocated / MIB > 32 + 2 * 32
