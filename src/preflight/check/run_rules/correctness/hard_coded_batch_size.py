"""The model takes batches of one size only, and the last batch is smaller.

## What it does
Runs the model on the CPU with real numbers, once more with one sample fewer, and looks whether it fails.
It speaks where the last batch of a loader of the run holds fewer samples than the others.

## Why
A batch size that is written into `view`, `expand` or an initial hidden state fits every batch but the last.
The run stops at the end of the first epoch, or in the first evaluation.

## Fix
Take the size from the input: `x.size(0)`.
`drop_last=True` avoids the smaller batch, and leaves its samples out.

## When to ignore
Never: the run stops.

## References
- PyTorch documentation of DataLoader, `drop_last`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import invented, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="hard-coded-batch-size",
    code="SHP004",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("shapes", "batch", "dry-run", "probe"),
)

_DATA = """
import torch
from torch import nn
data = torch.utils.data.TensorDataset(torch.randn(100, 12, 6), torch.randint(0, 3, (100,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
"""
_TRAIN = """
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""

BAD = (
    f"""{_DATA}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(72, 3)
    def forward(self, x):
        return self.fc(x.reshape(8, 72))
{_TRAIN}""",
    f"""{_DATA}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.LSTM(6, 16, batch_first=True), nn.Linear(16, 3)
    def start(self, device):
        return torch.zeros(1, 8, 16, device=device), torch.zeros(1, 8, 16, device=device)
    def forward(self, x):
        return self.fc(self.rnn(x, self.start(x.device))[0][:, -1])
{_TRAIN}""",
    f"""{_DATA}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.fc = nn.Parameter(torch.zeros(1, 1, 6)), nn.Linear(6, 3)
    def forward(self, x):
        return self.fc(torch.cat([self.token.expand(loader.batch_size, -1, -1), x], dim=1).mean(1))
{_TRAIN}""",
)

GOOD = (
    f"""{_DATA}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(72, 3)
    def forward(self, x):
        return self.fc(x.flatten(1))
{_TRAIN}""",
    f"""{_DATA}
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(72, 3)
    def forward(self, x):
        return self.fc(x.reshape(8, 72))
{_TRAIN}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find models that fail on one sample fewer, and a loader whose last batch is smaller."""
    probe = probe_of(run)
    loaders = [
        loader
        for loader in run.profile.loaders
        if loader.rounds
        and loader.samples
        and loader.batch_size
        and not loader.drop_last
        and "Dist" not in loader.sampler
        if loader.samples > loader.batch_size and loader.samples % loader.batch_size
        if loader.batches == loader.samples // loader.batch_size + 1
    ]
    for model in probe.models if probe is not None else ():
        if model.smaller is None or not model.smaller.error or not loaders:
            continue
        assert probe is not None
        loader = loaders[0]
        assert loader.samples is not None
        assert loader.batch_size is not None
        rest = loader.samples % loader.batch_size
        yield run.finding(
            RULE,
            model.smaller.line or model.line,
            f"{model.name} fails on a batch of another size, and the last of {loader.batches} batches holds {rest} samples "
            f"instead of {loader.batch_size}: the run stops there",
            evidence=[
                seen("exception with one sample fewer", model.smaller.error),
                seen("samples of the batch that it took", model.smaller.samples),
                seen("samples of the last batch", rest),
                setting(probe),
            ],
            fix=Fix(
                title="take the batch size from the input",
                instruction="use x.size(0) in the place of the number, or drop_last=True for the loader",
                expected="the model takes batches of any size",
            ),
            related=[(loader.line, "the loader is made here")],
            confidence="possible" if invented(probe) else None,
        )
