"""Explains an exception about shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused, shape
from preflight.check.observed.run import Run
from preflight.check.rules.correctness.shapes_do_not_fit import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 32 * 32, 10)).cuda()
net(torch.randn(2, 3, 32, 32).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Conv2d(4, 1, 1)
    def forward(self, x):
        return self.out(self.conv(x))
net = Net().cuda()
for x in torch.randn(2, 4, 3, 8, 8):
    net(x.cuda()).mean().backward()
""",
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
def residual(x, y):
    return net(x) + y
residual(torch.randn(2, 8).cuda(), torch.randn(2, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 4).cuda()
criterion = nn.BCEWithLogitsLoss()
criterion(net(torch.randn(2, 8).cuda()), torch.ones(2).cuda()).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    try:
        net(torch.randn(2, 9).cuda())
    except RuntimeError:
        pass
    net(torch.randn(2, 8).cuda()).sum().backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
x = torch.randn(2, 8).cuda()
if x.shape[-1] == 8:
    raise ValueError("the shape of x must not be (2, 8)")
""",
)

_SHAPES = (
    r"shape|sizes?\b|dimension|reduction dim|broadcast|channels|batch_size|target tensor expected|elements not|"
    r"invalid for input|must match|multiplied"
)
_OTHER = (
    r"size mismatch for|on the same device|dtype|scalar type|more than 1 value per channel|out of memory|state_dict"
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for an exception about shapes, and for what it is about."""
    refused = Refused.of(run)
    if refused is None or not refused.says(_SHAPES) or refused.says(_OTHER):
        return
    what, how = _module(refused) or _operands(refused)
    yield run.finding(
        RULE,
        refused.line,
        f"{what}: the run stops here",
        evidence=refused.evidence(),
        fix=Fix(title="let the shapes fit", instruction=how, expected="the statement runs"),
        related=refused.sources(),
        confidence=refused.confidence,
    )


def _module(refused: Refused) -> tuple[str, str] | None:
    """What a layer of a known kind expects, and what it got."""
    weight = next((t["shape"] for t in refused.own if t["name"] == "weight"), None)
    given = refused.inputs[0]["shape"] if refused.inputs else None
    if weight is None or not given:
        return None
    made = f", made by {refused.inputs[0]['made_by'].strip('_')}" if refused.inputs[0]["made_by"] else ""
    got = f"gets {shape(refused.inputs[0])}{made}"
    if refused.kind == "Linear" and given[-1] != weight[1]:
        return (
            f"{refused.where} {got}: the last dimension is {given[-1]} where {weight[1]} is expected",
            f"make it Linear({given[-1]}, {weight[0]}), or reshape its input to (..., {weight[1]})",
        )
    if refused.kind.startswith("Conv") and "Transpose" not in refused.kind and len(given) == len(weight):
        wanted = _channels(refused, weight)
        if given[1] == wanted:
            return None
        last = given[-1] == wanted
        return (
            f"{refused.where} {got}: {given[1]} channels where {wanted} are expected",
            "put the channels second: permute(0, 3, 1, 2)"
            if last and len(given) == 4
            else f"make in_channels {given[1]}, or change what makes its input",
        )
    return None


def _channels(refused: Refused, weight: list[int]) -> int:
    groups = re.search(r"groups=(\d+)", refused.settings)
    return int(weight[1]) * (int(groups.group(1)) if groups else 1)


def _operands(refused: Refused) -> tuple[str, str]:
    named = dict.fromkeys(f"{t['name']} {shape(t)}" for t in refused.named)
    given = dict.fromkeys(shape(t) for t in refused.given)
    inputs = dict.fromkeys(f"{t['name']} {shape(t)}" for t in refused.inputs)
    best = list(inputs or named or given) if refused.module else list(named if len(named) > 1 else given or named)
    what = f"{refused.where} cannot work on {' and '.join(best[:4])}" if best else f"{refused.where} refuses the shapes"
    return (
        f"{what} ({refused.text[:120].rstrip('.')})",
        "change one of them where it is made, or the layer that expects another size",
    )
