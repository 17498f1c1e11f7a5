"""A contrastive loss sees only the batch of its own GPU.

## What it does
Looks for a similarity matrix with the diagonal as target (InfoNCE, CLIP) in a distributed script that gathers nothing.

## Why
The other items of the batch are the negatives, and more of them make a better loss.
On 8 GPUs with 64 items each an item has 63 negatives instead of 511: the global batch is not what trains.

## Fix
Gather the embeddings of all ranks before the matrix is built (`torch.distributed.nn.all_gather` keeps gradients).

## When to ignore
When negatives come from a queue or memory bank.

## References
- Chen et al., "SimCLR", 2020, section 5.2; Radford et al., "CLIP", 2021
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="contrastive-batch-not-gathered",
    code="CON001",
    severity="info",
    confidence="likely",
    needs=("distributed", "training_loop", "complete"),
    tags=("loss", "distributed"),
)
_GATHERS = (
    "torch.distributed.all_gather", "torch.distributed.nn.all_gather", "torch.distributed.nn.functional.all_gather",
    "torch.distributed.all_gather_into_tensor", ".all_gather", ".gather", "torch.distributed.all_to_all",
)  # fmt: skip
_PRODUCTS = ("@", "torch.matmul", "torch.mm", ".matmul", ".mm", "torch.einsum", ".__matmul__")

_HEAD = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
model = DDP(nn.Linear(10, 8))
optimizer = torch.optim.Adam(model.parameters())
"""

BAD = (
    f"""{_HEAD}
for a, b in loader:
    first, second = F.normalize(model(a), dim=-1), F.normalize(model(b), dim=-1)
    logits = first @ second.t() / 0.07
    loss = F.cross_entropy(logits, torch.arange(len(a)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
def contrast(x, y, scale):
    scores = torch.matmul(x, y.T) * scale
    target = torch.arange(x.size(0), device=x.device)
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target)) / 2
for a, b in loader:
    optimizer.zero_grad()
    contrast(model(a), model(b), 20.0).backward()
    optimizer.step()
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--temperature", type=float, default=0.1)
args = parser.parse_args()
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.criterion = nn.CrossEntropyLoss()
    def forward(self, x, y):
        return self.criterion(torch.mm(x, y.t()) / args.temperature, torch.arange(len(x)))
criterion = Loss()
for a, b in loader:
    optimizer.zero_grad()
    criterion(model(a), model(b)).backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_HEAD}
import torch.distributed.nn
for a, b in loader:
    first = model(a)
    second = torch.cat(torch.distributed.nn.all_gather(model(b)))
    logits = first @ second.t() / 0.07
    loss = F.cross_entropy(logits, torch.arange(len(a)) + dist.get_rank() * len(a))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
head = nn.Parameter(torch.randn(8, 10))
for x, y in loader:
    loss = F.cross_entropy(model(x) @ head, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find cross entropies of a product with a counted target, and nothing that gathers."""
    if context.trace.calls(*_GATHERS) or context.trace.calls_under("torch.distributed.nn.", "open_clip."):
        return
    told = False
    for event in context.trace.calls("torch.nn.functional.cross_entropy", "()"):
        if told or event.context.shadow or len(event.args) < 2 or not _is_entropy(context, event):
            continue
        product = _product(event.args[0])
        if (
            product is not None
            and _counting(event.args[1])
            and any(event.context.within(t.frame) for t in context.reading.loops)
        ):
            told = True
            yield _finding(context, event, product)


def _is_entropy(context: Context, event: Event) -> bool:
    criterion = settle(event.receiver) if event.receiver is not None else None
    return event.name != "()" or (isinstance(criterion, Obj) and criterion.name == "torch.nn.CrossEntropyLoss")


def _product(value: Value) -> Obj | None:
    """The product of two results of networks that the logits are."""
    for part in provenance(value, 12):
        if isinstance(part, Obj) and part.name in _PRODUCTS:
            sides = [*([part.receiver] if part.receiver is not None else []), *part.args]
            outputs = [s for s in sides if any(isinstance(p, Obj) and p.name == "()" for p in provenance(s, 60))]
            return part if len(outputs) >= 2 else None
    return None


def _counting(value: Value) -> bool:
    """Whether a target is 0, 1, 2 ...: the diagonal."""
    return any(isinstance(p, Obj) and p.name == "torch.arange" for p in provenance(value, 12))


def _finding(context: Context, event: Event, product: Obj) -> Finding:
    return context.finding(
        RULE,
        event,
        "the contrastive loss compares the items of one GPU only: with N GPUs each item has N times fewer negatives "
        "than the global batch offers",
        evidence=[
            Evidence("calls that gather embeddings", 0, arithmetic="8 GPUs x 64 items: 63 negatives instead of 511")
        ],
        fix=Fix(
            title="gather the embeddings of all ranks",
            instruction="torch.cat(torch.distributed.nn.all_gather(z)) before the product, targets shifted by rank",
            expected="every item is compared with the global batch",
        ),
        related=[(product, "the similarity matrix")],
    )
