"""A whole evaluation runs in each training step.

## What it does
Looks for a loop over evaluation data inside each pass of the innermost training loop.

## Why
With n training batches and m evaluation batches per epoch, n x m forward passes are spent on evaluation: with 1,000 and 100 that is 100,000, about 30 times the work of the training itself.

## Fix
Evaluate every few hundred steps or once per epoch.

## When to ignore
When each step is itself a whole training run, as in meta-learning.

## References
- Hugging Face transformers documentation, `TrainingArguments.eval_steps`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import feeding, made_within
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-each-step",
    code="EFF025",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "loader"),
    layer="D",
    tags=("evaluation",),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader
train, val = DataLoader(a, 8, True), DataLoader(b, 8)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.no_grad()
def evaluate(loader):
    total = 0
    for x, y in loader:
        total += nn.functional.cross_entropy(model(x), y)
    return total
def step(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _HEAD + "for x, y in train:\n    step(x, y)\n    print(evaluate(val))\n",
    _HEAD
    + "import tqdm\nfor epoch in range(3):\n    for i, (x, y) in enumerate(tqdm.tqdm(train)):\n        step(x, y)\n"
    "        with torch.inference_mode():\n            for u, v in val:\n                model(u)\n",
    _HEAD
    + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--validate', type=int, default=1)\n"
    "args = parser.parse_args()\nclass Runner:\n    def run(self, batch):\n        step(*batch)\n        if args.validate:\n            evaluate(val)\n"
    "runner = Runner()\nfor batch in train:\n    runner.run(batch)\n",
)
GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(10, 8), nn.Linear(8, 2)
    def forward(self, video):
        parts = []
        for clips in DataLoader(Clips(video), batch_size=4):
            with torch.no_grad():
                parts.append(self.backbone(clips))
        return self.head(torch.cat(parts).mean(0, keepdim=True))
net = Net()
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
for video, y in DataLoader(videos, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(video), y).backward()
    optimizer.step()
""",
    _HEAD + "for i, (x, y) in enumerate(train):\n    step(x, y)\n    if i % 500 == 0:\n        evaluate(val)\n",
    _HEAD + "for epoch in range(3):\n    for x, y in train:\n        step(x, y)\n    evaluate(val)\n",
    _HEAD
    + "batches = iter(train)\nfor i in range(1000):\n    loss = torch.zeros(())\n    for _ in range(4):\n        x, y = next(batches)\n"
    "        loss += nn.functional.cross_entropy(model(x), y) / 4\n    loss.backward()\n    optimizer.step()\n"
    "    optimizer.zero_grad()\n",
)


def check(context: Context) -> Iterator[Finding]:
    """Find evaluation loops that each pass of a training loop runs."""
    feeds = feeding(context)
    loaders = {id(o): o for o in context.reading.made("loader")}
    seen: set[int] = set()
    for loop in step_loops(context):
        if any(frame is not loop.frame and frame.within(loop.frame) for frame in feeds.trained):
            continue  # training data is gone through in each pass, too: the pass is an epoch
        for key, frames in feeds.evaluation.items():
            if made_within(loaders.get(key), loop.frame):
                continue
            for frame in frames:
                if (
                    not frame.within(loop.frame)
                    or frame is loop.frame
                    or not each_pass(frame, loop.frame)
                    or id(frame.node) in seen
                ):
                    continue
                if frame.node is None or frame.script is None:
                    continue
                seen.add(id(frame.node))
                loader = loaders.get(key)
                yield context.finding(
                    RULE,
                    (frame.script, frame.node),
                    "the whole evaluation data is gone through in each training step",
                    evidence=[Evidence("evaluations", "1 per training step")],
                    related=[(loader, "the evaluation data")] if isinstance(loader, Obj) else (),
                    fix=Fix(
                        title="evaluate less often",
                        instruction="put the evaluation under `if step % n == 0`, or after the epoch",
                        expected="training steps instead of evaluation passes",
                    ),
                )
