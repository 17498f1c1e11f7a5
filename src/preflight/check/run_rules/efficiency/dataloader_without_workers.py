"""Sees how many workers the loaders that feed the training really have."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.efficiency.dataloader_without_workers import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True
ALONE = False

_HEAD = """
import torch, random
from torch import nn
from torch.utils.data import DataLoader, Dataset
from PIL import Image
class Pictures(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        try:
            Image.open(f"pictures/{i}.png").convert("RGB")
        except OSError:
            pass
        return torch.randn(8), i % 2
"""
_BODY = """
model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""

BAD = (
    _HEAD + "loader = DataLoader(Pictures(), batch_size=4, shuffle=True)\n" + _BODY,
    _HEAD
    + "def make(workers=0):\n    return DataLoader(Pictures(), 4, True, num_workers=workers)\nloader = make()\n"
    + _BODY,
    _HEAD
    + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=0)\n"
    + "args = parser.parse_args()\nloader = DataLoader(Pictures(), batch_size=4, shuffle=True, num_workers=args.workers)\n"
    + _BODY,
)

GOOD = (
    _HEAD
    + "options = {'num_' + 'workers': 4}\nloader = DataLoader(Pictures(), batch_size=4, shuffle=True, **options)\n"
    + _BODY,
)


def observe(run: Run) -> Iterator[Finding]:
    """Find loaders that feed the training from the main process."""
    for loader in run.profile.loaders:
        if loader.trains and loader.workers == 0:
            yield run.finding(
                RULE,
                loader.line,
                "the loader that feeds the training has no workers: the GPU waits while each batch is prepared",
                evidence=[seen("num_workers", 0), seen("dataset", loader.dataset)],
                fix=Fix(
                    title="prepare batches in worker processes",
                    instruction="pass num_workers=4 per GPU as a start, at most CPU cores / GPUs",
                    expected="batches are prepared while the GPU works",
                ),
            )
