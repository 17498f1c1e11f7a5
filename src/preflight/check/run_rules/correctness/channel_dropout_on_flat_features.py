"""Sees channel-wise dropout on a tensor of two dimensions."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.channel_dropout_on_flat_features import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
parts = {"drop": nn.Dropout2d}
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), parts["drop"](0.5), nn.Linear(144, 2)).cuda()
net(torch.randn(2, 3, 8, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.fc, self.drop = nn.Linear(8, 8), getattr(nn, f"Dropout{dims}d")(0.25)
    def forward(self, x):
        return self.drop(self.fc(x))
net = Net(2).cuda()
net(torch.randn(2, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
def head(width, kind):
    return nn.Sequential(nn.Linear(width, width), kind(), nn.Linear(width, 2))
net = head(8, nn.Dropout3d).cuda()
net(torch.randn(2, 8).cuda()).sum().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, 2)).cuda()
net(torch.randn(2, 3, 8, 8).cuda()).sum().backward()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look at the dimensions of what each channel-wise dropout is given."""
    flat = [i for i in run.seen("dropout") if i.data["kind"] in ("Dropout2d", "Dropout3d") and i.data["rank"] == 2]
    for item in first_of_each(flat):
        kind = item.data["kind"]
        yield run.finding(
            RULE,
            item.line,
            f"{item.module} ({kind}) drops whole channels, but its input has only two dimensions: plain dropout is meant",
            evidence=[seen("dimensions of the input", 2), seen("module", f"{item.module} ({kind})")],
            fix=Fix(
                title="use plain dropout",
                instruction=f"replace {kind} by Dropout on flat features",
                expected="single features are dropped, without a warning",
            ),
            confidence="certain",
        )
