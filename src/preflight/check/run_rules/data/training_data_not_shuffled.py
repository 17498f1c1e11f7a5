"""Sees in which order a loader gave the samples that were trained on."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.data.training_data_not_shuffled import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True
ALONE = False

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 8), torch.arange(64) // 32)
"""
_BODY = """
model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""

BAD = (
    _HEAD + "loader = DataLoader(data, batch_size=4)\n" + _BODY,
    _HEAD + "def make(data, shuffle=False):\n    return DataLoader(data, 4, shuffle)\nloader = make(data)\n" + _BODY,
    _HEAD
    + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--shuffle', action='store_true')\n"
    + "args = parser.parse_args()\nloader = DataLoader(data, batch_size=4, shuffle=args.shuffle)\n"
    + _BODY,
)

GOOD = (_HEAD + "options = {'shuf' + 'fle': True}\nloader = DataLoader(data, batch_size=4, **options)\n" + _BODY,)


def observe(run: Run) -> Iterator[Finding]:
    """Find loaders that feed the training in stored order."""
    for loader in run.profile.loaders:
        if not loader.trains or loader.order != "stored" or loader.samples is None:
            continue
        yield run.finding(
            RULE,
            loader.line,
            f"the batches that train are drawn in stored order ({loader.sampler}), the same in each epoch",
            evidence=[seen("sampler", loader.sampler), seen("samples", loader.samples)],
            fix=Fix(
                title="shuffle the training data",
                instruction="pass shuffle=True to the loader that feeds the training loop, or shuffle the samples before",
                expected="each epoch visits the samples in another order",
            ),
        )
