"""What a network says of one sample depends on the others of its batch.

## What it does
Puts the network into evaluation mode on the CPU, changes the last sample of a batch and looks at the outputs of the others.
It is done where the first dimension is known to be the batch: the batch size of a data loader, or that of tokens whose targets are the tokens themselves.

## Why
A `view` or `reshape` that runs over the batch, a recurrent layer or attention that takes the batch for time (`batch_first`), or a soft-max over dimension 0 mixes samples that have nothing to do with each other.
Nothing raises, the loss falls, and results depend on which samples happen to lie in a batch; with a batch of one, as in production, they are different.

## Fix
Give recurrent layers and attention `batch_first=True` where the batch comes first, use `transpose` or `permute` to change the order of dimensions instead of `view`, and name the dimension of soft-max.

## When to ignore
When samples are compared with each other on purpose, as in contrastive learning or in a graph.

## References
- PyTorch documentation of torch.nn.LSTM and torch.nn.MultiheadAttention, `batch_first`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import MOVED, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="samples-mixed-in-batch",
    code="SHP005",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("shapes", "dry-run", "probe"),
)

_LOOP = """
data = torch.utils.data.TensorDataset(torch.randn(64, 6, 16), torch.randint(0, 4, (64,)))
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(16, 32), nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])
net = Net().cuda()
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.TransformerEncoderLayer(16, 2, 32), nn.Linear(16, 4)
    def forward(self, x):
        return self.head(self.body(x).mean(1))
net = Net().to("cuda")
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        h = torch.relu(self.body(x))
        h = h.view(x.size(1), x.size(0), -1)  # meant as a transpose
        return self.head(h.mean(0))
net = Net().cuda()
{_LOOP}""",
)

GOOD = (
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.norm, self.head = nn.LSTM(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.norm(self.rnn(x.transpose(0, 1))[0][-1]))
net = Net().cuda()
{_LOOP}""",
    """
import torch
from torch import nn
net = nn.Linear(16, 8).cuda()
class Compare(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, x):
        z = nn.functional.normalize(self.net(x), dim=-1)
        return z @ z.T / 0.1
model = Compare()
optimizer = torch.optim.Adam(net.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 16))
for (x,) in torch.utils.data.DataLoader(data, batch_size=8):
    loss = nn.functional.cross_entropy(model(x.cuda()), torch.arange(8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find networks whose outputs for a sample move with another sample."""
    probe = probe_of(run)
    for model in probe.models if probe is not None else ():
        mixing = model.mixing
        if mixing is None or mixing.moved <= MOVED:
            continue
        assert probe is not None
        yield run.finding(
            RULE,
            model.line,
            f"{model.name} mixes the samples of a batch: with one of {mixing.samples} changed, what it says of the others moves "
            f"too, by {100 * mixing.moved:.2g} %",
            evidence=[seen("move of the other samples", mixing.moved), setting(probe)],
            fix=Fix(
                title="keep the batch in a dimension of its own",
                instruction="batch_first=True where the batch comes first; transpose instead of view; name the dimension",
                expected="a sample's output is the same in any batch",
            ),
        )
