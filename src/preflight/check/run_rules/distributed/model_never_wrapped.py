"""Sees ranks that train without one collective between them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.distributed.model_never_wrapped import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_HEAD = """
import torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("nccl")
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 2))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
"""
_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
    reduce(model)
    optimizer.step()
"""


def _example(text: str) -> Example:
    return Example(_HEAD + text + _LOOP, gpus=4)


BAD = (
    _example("model = nn.Linear(8, 2).cuda()\ndef reduce(model):\n    pass\n"),
    _example(
        "def wrap(net, on=False):\n    return nn.parallel.DistributedDataParallel(net) if on else net\n"
        "model = wrap(nn.Linear(8, 2).cuda())\ndef reduce(model):\n    pass\n"
    ),
    _example(
        "class Trainer:\n    def __init__(self):\n        self.net = nn.Linear(8, 2).to('cuda')\nmodel = Trainer().net\n"
        "def reduce(model):\n    dist.barrier()\n"
    ),
)

GOOD = (
    _example("model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2).cuda())\ndef reduce(model):\n    pass\n"),
    _example(
        "model = nn.Linear(8, 2).cuda()\ndef reduce(model):\n    for p in model.parameters():\n"
        "        dist.all_reduce(p.grad)\n        p.grad /= 4\n"
    ),
)

_REDUCES = ("reduce", "gather", "all_to_all", "broadcast", "send", "recv")


def observe(run: Run) -> Iterator[Finding]:
    """Find a training on several ranks in whose steps nothing is reduced."""
    launch = run.context.launch
    ranks = launch.world_size or run.context.gpus or 1
    work = run.profile.work
    if ranks < 2 or not run.complete or not run.trained or not work.order:
        return
    if any(any(word in work.kinds[at].operator for word in _REDUCES) for at in work.order if work.kinds[at].ranks):
        return
    groups = run.seen("process group")
    if not groups or groups[0].data["ranks"] < 2:
        return  # without a process group the ranks may be meant to be independent: a sweep, a data preparation
    backwards = run.seen("backward")
    sharded = any(loader.trains and "Distributed" in loader.sampler for loader in run.profile.loaders)
    yield run.finding(
        RULE,
        backwards[0].line,
        f"{ranks} ranks compute gradients and none of them is reduced: {run.profile.steps} steps ran without one collective on "
        "gradients, and the copies drift apart",
        evidence=[
            seen("ranks of the process group", groups[0].data["ranks"]),
            seen("collectives on tensors in a step", 0),
            seen("data split between the ranks", sharded),
        ],
        fix=Fix(
            title="wrap the model in DistributedDataParallel",
            instruction="model = DistributedDataParallel(model, device_ids=[local_rank]) after moving it to its device",
            expected="all ranks hold the same weights",
        ),
        confidence="certain" if sharded else "likely",
    )
