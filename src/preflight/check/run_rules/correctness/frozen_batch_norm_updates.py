"""Batch norm of a frozen part still takes in the statistics of every batch.

## What it does
Finds batch norm whose weights do not learn and that runs in train mode in training steps: it normalises by the batch, and moves its running mean and variance.

## Why
`requires_grad_(False)` freezes the weights and nothing else.
The pretrained statistics drift to those of the new data, and with small batches they are noise: what was frozen is no longer what was loaded, and evaluation, which uses them, sees another network than training does.

## Fix
Call `eval()` on the frozen part after each `train()` of the whole, or override `train()` of the model so that it keeps that part in eval mode.

## When to ignore
When the statistics are meant to adapt to the new data.

## References
- PyTorch, "Autograd mechanics", on eval mode and requires_grad
- PyTorch documentation of BatchNorm2d
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

RULE = Rule(
    name="frozen-batch-norm-updates",
    code="MOD005",
    severity="info",
    confidence="likely",
    layer="V",
    tags=("modules", "batch-norm", "dry-run"),
)

_NET = """
import torch
from torch import nn
backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Linear(8, 2)
"""
_LOOP = """
net.train()
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 3, 16, 16, device="cuda")).square().mean().backward()
    optimizer.step()
"""

BAD = (
    f"""{_NET}
for p in backbone.parameters():
    p.requires_grad = False
net = nn.Sequential(backbone, head).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
{_LOOP}""",
    f"""{_NET}
class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = backbone.requires_grad_(False), head
    def forward(self, x):
        return self.head(self.backbone(x))
net = Transfer().cuda()
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad])
{_LOOP}""",
    f"""{_NET}
def freeze(module, names):
    for name, p in module.named_parameters():
        p.requires_grad_(not any(name.startswith(part) for part in names))
net = nn.Sequential(backbone, head).cuda()
freeze(net, ("0.",))
backbone.eval()
optimizer = torch.optim.Adam(head.parameters())
{_LOOP}""",
)

GOOD = (
    f"""{_NET}
backbone.requires_grad_(False)
net = nn.Sequential(backbone, head).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
net.train()
backbone.eval()
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 3, 16, 16, device="cuda")).square().mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
maker = nn.Linear(4, 8).cuda()
judge = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(4):
    judge.requires_grad_(True)
    two.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda")).detach()).mean().backward()
    two.step()
    judge.requires_grad_(False)
    one.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda"))).mean().neg().backward()
    one.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find batch norm whose weights never learn and that runs in train mode with gradients on."""
    if not run.complete:
        return
    frozen = {p.name for p in run.profile.parameters if not p.trainable and not p.gradients}
    learning = {p.name for p in run.profile.parameters if p.gradients}
    found: dict[str, list[Observation]] = {}
    for item in run.seen("batch norm"):
        data, weight = item.data, f"{item.module}.weight"
        moves = data["training"] and data["graph"] and data["frozen"] and data["statistics"]
        if moves and item.step and weight in frozen and weight not in learning:
            found.setdefault(item.line, []).append(item)
    for line, items in found.items():
        paths = list(dict.fromkeys(item.module for item in items))
        yield run.finding(
            RULE,
            line,
            f"{len(paths)} frozen batch norm {'layers are' if len(paths) > 1 else 'layer is'} in train mode ({paths[0]}"
            f"{' and others' if len(paths) > 1 else ''}): the running statistics move with every batch",
            evidence=[
                seen("layers", ", ".join(paths[:4])),
                seen("calls in train mode", sum(item.count for item in items)),
                seen("examples of a batch", items[0].data["batch"]),
            ],
            fix=Fix(
                title="put the frozen part into eval mode",
                instruction="call eval() on it after each train() of the whole model",
                expected="its statistics stay those that were loaded",
            ),
        )
