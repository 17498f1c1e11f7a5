"""A classifier draws random numbers in evaluation mode.

## What it does
Runs each model that is trained with a loss over classes twice in evaluation mode on the CPU, on the same input and with different seeds, and reports it where the results differ and a function that draws random numbers has run.
Dropout has a rule of its own; normal noise, which generative models draw on purpose, is left out.

## Why
Two evaluations of one checkpoint then give different numbers, the best checkpoint is picked by luck, and what is deployed answers differently each time.
Usually an augmentation, stochastic depth or a random mask does not ask whether the model is training.

## Fix
Draw only while `self.training` is true.

## When to ignore
When the model is meant to sample, or its answers are averaged over many draws.

## References
- PyTorch documentation, "Reproducibility"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-draws-random-numbers",
    code="REP007",
    severity="warning",
    confidence="possible",
    layer="V",
    tags=("reproducibility", "evaluation", "dry-run", "probe"),
)

_LOOP = """
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 6, 16).cuda()), torch.randint(0, 4, (8,)).cuda())
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
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        keep = torch.rand(x.size(0), 1, 1, device=x.device) > 0.2
        return self.head((x + torch.relu(self.body(x)) * keep / 0.8).mean(1))
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        mask = x.new_empty(x.shape[:2]).bernoulli_(0.7)
        return self.head((self.body(x) * mask[..., None]).sum(1))
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.GRU(16, 16, batch_first=True), nn.Linear(16, 4)
    def forward(self, x):
        kept = torch.randperm(x.size(1), device=x.device)[:4]
        return self.head(self.body(x[:, kept])[0][:, -1])
{_LOOP}""",
)

GOOD = (
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        h = torch.relu(self.body(x))
        if self.training:
            h = h * (torch.rand(x.size(0), 1, 1, device=x.device) > 0.2) / 0.8
        return self.head((x + h).mean(1))
{_LOOP}""",
)

_DRAWS = frozenset(
    "rand rand_like bernoulli bernoulli_ randperm randint multinomial uniform_ rrelu gumbel_softmax".split()
)


def observe(run: Run) -> Iterator[Finding]:
    """Find classifiers whose evaluation hangs on random numbers that are no dropout."""
    probe = probe_of(run)
    if probe is None or not probe.losses:
        return
    for model in probe.models:
        evaluation = model.evaluation
        if evaluation is None or evaluation.same:
            continue
        drawn = next((d for d in evaluation.drawn if d.function in _DRAWS), None)
        if drawn is None or any(d.share for d in evaluation.drawn):
            continue
        yield run.finding(
            RULE,
            drawn.line or model.line,
            f"{drawn.function}() draws here although {model.name} is in evaluation mode, and two evaluations of the same input "
            "differ",
            evidence=[seen("outputs compared", evaluation.outputs), setting(probe)],
            fix=Fix(
                title="draw only while training",
                instruction="ask self.training before it",
                expected="evaluation gives the same for the same input",
            ),
        )
