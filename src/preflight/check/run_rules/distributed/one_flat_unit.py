"""Sees a sharded network of which only the top is a unit."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.distributed.one_flat_unit import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.seen import ModuleSeen

SETTLES = True

_HEAD = """
import functools, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
dist.init_process_group("nccl")
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1024, 1024)
    def forward(self, x):
        return x + self.layer(x)
model = nn.Sequential(*[Block() for _ in range(8)]).cuda()
"""
_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 1024, device="cuda")).sum().backward()
    optimizer.step()
"""


def _example(text: str) -> Example:
    return Example(_HEAD + text + _LOOP, gpus=4)


BAD = (
    _example("fully_shard(model)\n"),
    _example("def shard(net, **options):\n    return fully_shard(net, **options)\nmodel = shard(model)\n"),
    _example(
        "import os\nfor part in [model] if os.environ.get('WHOLE', '1') == '1' else model:\n    fully_shard(part)\n"
    ),
)

GOOD = (_example("for block in model:\n    fully_shard(block)\nfully_shard(model)\n"),)

_LEAST = 16 << 20


def observe(run: Run) -> Iterator[Finding]:
    """Find networks whose only sharded module is the network itself."""
    for network in sorted(run.trained):
        modules = run.modules(network)
        units = [module for module in modules if _unit(module)]
        size = sum(p.bytes for p in run.parameters(network))
        whole = max((m.parameters for m in modules), default=0)
        if len(units) != 1 or units[0].parameters < whole or len(modules) < 4 or whole * 4 < _LEAST:
            continue
        calls = run.seen("call")
        yield run.finding(
            RULE,
            calls[0].line if calls else "",
            f"the whole model is one unit: all {whole:,} parameters are gathered at once in every forward and backward pass",
            evidence=[
                seen("units", 1),
                seen("modules", len(modules)),
                seen("parameters on this rank", size, "bytes"),
                seen("gathered at once", format_bytes(whole * 4)),
            ],
            fix=Fix(
                title="make each block a unit",
                instruction="give auto_wrap_policy=transformer_auto_wrap_policy with the block class, or call fully_shard on every block first",
                expected="one block is gathered at a time: the peak falls by about the number of blocks",
            ),
        )


def _unit(module: ModuleSeen) -> bool:
    # fully_shard gives a module a class of the same name with FSDP before it.
    return module.kind == "FullyShardedDataParallel" or module.kind.startswith("FSDP")
