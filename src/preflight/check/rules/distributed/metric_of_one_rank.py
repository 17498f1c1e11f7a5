"""Evaluation metric is that of one rank only.

## What it does
Looks for an evaluation over a loader with a `DistributedSampler` whose results are added up and reported although nothing in the script reduces or gathers anything between the ranks.

## Why
Each rank sees 1/N of the evaluation set.
The reported number is that of rank 0's part: with 8 ranks it comes from an eighth of the data, and the best checkpoint is chosen by it.

## Fix
Sum counts and losses with `all_reduce` before dividing, gather the predictions, or use torchmetrics, which does so.

## When to ignore
When an estimate from a part of the data is enough.

## References
- PyTorch documentation, torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import feeding, trains
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import provenance
from preflight.source.values import Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="metric-of-one-rank",
    code="DST019",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed", "evaluation"),
)

_MAIN = """
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return correct / total
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
loader = DataLoader(valid, 32, sampler=DistributedSampler(valid, shuffle=False))
print(evaluate(model, loader))
"""

BAD = (
    _MAIN,
    """
import argparse, torch
import torch.nn.functional as F
from torch.utils import data
class Evaluator:
    def __init__(self, model, args):
        self.model = torch.nn.parallel.DistributedDataParallel(model)
        sampler = data.DistributedSampler(valid)
        self.loader = data.DataLoader(valid, args.batch, sampler=sampler)
    @torch.no_grad()
    def run(self):
        losses = []
        for x, y in self.loader:
            losses.append(F.mse_loss(self.model(x), y).item())
        return sum(losses) / len(losses)
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
torch.distributed.init_process_group("nccl")
print(Evaluator(torch.nn.Linear(4, 1), p.parse_args()).run())
""",
    """
import torch
from torch import distributed as D
from torch.utils.data import DataLoader as DL, DistributedSampler as DS
D.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
total = 0.0
with torch.inference_mode():
    for batch in DL(test, sampler=DS(test)):
        total = total + net(batch).mean().item()
print("loss", total)
""",
)

GOOD = (
    _MAIN.replace(
        "    return correct / total",
        "    t = torch.tensor([correct, total]).cuda()\n    dist.all_reduce(t)\n    return (t[0] / t[1]).item()",
    ),
    _MAIN.replace("sampler=DistributedSampler(valid, shuffle=False)", "shuffle=False"),
    _MAIN.replace(
        "    return correct / total",
        "    from metrics import reduce_metrics\n    return reduce_metrics(correct, total)",
    ),
    """
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda())
with torch.no_grad():
    for i, x in enumerate(DataLoader(data, sampler=DistributedSampler(data))):
        torch.save(model(x), f"features_{dist.get_rank()}_{i}.pt")
""",
    """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
encoder = torch.nn.Linear(4, 4).cuda()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, sampler=DistributedSampler(data)):
    with torch.no_grad():
        features = encoder(x)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
)

_REDUCES = ("reduce", "gather", "all_reduce", "all_gather", "sync", "synchronize", "aggregate", "collect", "average")


def check(context: Context) -> Iterator[Finding]:
    """Find sums over a sharded evaluation without any reduction."""
    samplers = {id(s) for s in context.reading.made("sampler") if s.name == "torch.utils.data.DistributedSampler"}
    if not samplers or not context.distributed or _reduces(context):
        return
    seen: set[int] = set()
    for event in context.trace.calls("()"):
        frame = next((f for f in event.context.frames() if f.kind == "loop" and not f.unrolled), None)
        if frame is None or id(frame) in seen or frame.shadow or context.roles.of(event.receiver) != "model":
            continue
        seen.add(id(frame))
        if not _without_gradients(event.context.withs()) or not any(
            id(p) in samplers for p in provenance(frame.value, 300)
        ):
            continue
        if not _accumulates(context, frame) or frame.node is None or frame.script is None:
            continue
        if any(trains(context, inside) for inside in feeding(context).inside(frame)):
            continue  # a frozen network has its part in a pass that trains
        yield context.finding(
            RULE,
            event,
            "the evaluation adds up results over a sharded loader, and nothing reduces them over the ranks: the metric is that of one rank's part",
            evidence=[Evidence("reductions or gathers in the script", 0)],
            fix=Fix(
                title="reduce the sums over the ranks",
                instruction="all_reduce the counts and sums before dividing, or use torchmetrics",
                expected="the metric is that of the whole evaluation set",
            ),
        )
        return


def _reduces(context: Context) -> bool:
    """Whether anything is called that could bring results of the ranks together."""
    for role in ("accelerator", "fabric", "engine", "trainer", "lightning_trainer"):
        if context.reading.made(role):
            return True
    for name, events in context.trace.by_name.items():
        last = name.rpartition(".")[2].lower()
        if name.startswith(("torchmetrics.", "ignite.", "horovod.")) or last in _REDUCES:
            return True
        if (
            any(not e.inlined for e in events)
            and any(word in last for word in ("reduce", "gather", "sync"))
            and not name.startswith("torch.cuda.")
        ):
            return True
    return False


def _without_gradients(withs: list[Value]) -> bool:
    return any(
        getattr(w, "name", "") in ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled") for w in withs
    )


def _accumulates(context: Context, frame: Frame) -> bool:
    """Whether numbers leave the tensors inside the loop: something is counted, not only stored."""
    return any(e.context.within(frame) for e in context.trace.calls(".item", ".tolist", "builtins.float"))
