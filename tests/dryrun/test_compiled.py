"""What torch.compile fuses is not written to memory: a dry run runs operator by operator, and counts beside that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.memory import _written
from preflight.dryrun.time import step_time
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """
import torch
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))) * 2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(8)))
        self.head = nn.Linear(256, 16)

    def forward(self, x):
        return self.head(self.blocks(x))

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = model
{compiled}
for _ in range(3):
    x = torch.randn(8192, 256, device="cuda")
    loss = run(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MIB = 1 << 20
UNIT = 8192 * 256 * 4
"""Bytes of one activation of the width of the blocks: 8 MiB."""


@pytest.mark.parametrize(
    "compiled",
    [
        "run = torch.compile(model)",
        "model.compile()",
        "run = torch.compile(model, mode='max-autotune', dynamic=False)",
        "run = torch.compile(lambda x: model(x))",
        "@torch.compile(fullgraph=True)\ndef run(x):\n    return model(x)",
    ],
)
def test_a_compiled_network_holds_what_its_products_gave(run_program: Callable[[str], Profile], compiled: str) -> None:
    seen = run_program(PROGRAM.replace("{compiled}", compiled))
    blocks = 8
    # One by one: x, its norm, the product of 4 units, and twice its silu, of 4 as well.
    assert seen.peak_bytes > blocks * 10 * UNIT
    # Compiled: the product of 4 units, and down's result, without which x could not be made again.
    least = blocks * 5 * UNIT
    assert least < seen.compiled_bytes < least + 16 * UNIT
    assert _written(seen).low == seen.compiled_bytes
    assert _written(seen).high == seen.peak_bytes
    fused = {kind.operator for kind in seen.work.kinds if kind.fused}
    assert fused >= {"silu", "silu_backward", "native_layer_norm"}
    assert not fused & {"mm", "addmm"}


def test_what_is_not_compiled_is_counted_as_it_was(run_program: Callable[[str], Profile]) -> None:
    plain = run_program(PROGRAM.replace("{compiled}", ""))
    off = run_program(PROGRAM.replace("{compiled}", "run = torch.compile(model, disable=True)"))
    compiled = run_program(PROGRAM.replace("{compiled}", "run = torch.compile(model)"))
    for seen in (plain, off):
        assert seen.compiled_bytes == 0
        assert _written(seen).low == _written(seen).high == seen.peak_bytes
        assert not any(kind.fused for kind in seen.work.kinds)
    assert compiled.peak_bytes == plain.peak_bytes
    slow, fast = (step_time(seen.work, resolve_gpu("h100")) for seen in (plain, compiled))
    assert slow is not None
    assert fast is not None
    assert fast.seconds.mid < slow.seconds.mid
    assert fast.seconds.high < slow.seconds.high


def test_what_leaves_the_compiled_part_is_written(run_program: Callable[[str], Profile]) -> None:
    """A hook or a loss outside of it reads the result of a fused operator."""
    inside = run_program(
        PROGRAM.replace("{compiled}", "run = torch.compile(lambda x: F.silu(model.blocks(x)).sum(-1))")
    )
    outside = run_program(
        PROGRAM.replace(
            "{compiled}",
            "part = torch.compile(lambda x: F.silu(model.blocks(x)))\nrun = lambda x: part(x).mul(2).sum(-1)",
        )
    )
    assert outside.compiled_bytes >= inside.compiled_bytes + 0.9 * UNIT


def test_a_network_that_is_gone_when_the_run_ends_was_compiled_all_the_same(
    run_program: Callable[[str], Profile],
) -> None:
    head, loop = PROGRAM.replace("{compiled}", "run = torch.compile(model)").split("model = Net()")
    body = "".join(f"    {line}\n" for line in ("model = Net()" + loop).splitlines())
    seen = run_program(f"{head}def main():\n{body}\nmain()\n")
    assert 0 < seen.compiled_bytes < seen.peak_bytes
