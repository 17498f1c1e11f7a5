"""A large dimension is not a multiple of 8.

## What it does
Looks for layers whose width, vocabulary or number of outputs is known, at least 1,024, and not a multiple of 8.
The number of rows of an embedding counts where its table is the output layer too: looking up rows is no matrix product.

## Why
Tensor cores work on tiles of 8 and more numbers of 16 bits; a matrix product with another size is padded, or falls back to slower kernels.
GPT-2's vocabulary of 50,257 is the known case: padded to 50,304 = 64 x 786 the output layer is markedly faster.

## Fix
Round the dimension up to a multiple of 64, and ignore the additional entries.

## When to ignore
When the checkpoint fixes the size.

## References
- NVIDIA, "Matrix Multiplication Background User's Guide", alignment
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import uses_gpu
from preflight.check.queries.tensors import graph, origin
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="dimensions-not-aligned",
    code="EFF010",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="V",
    tags=("shapes",),
)

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    "import torch\nmodel = torch.nn.Linear(768, 50257).cuda()\n" + _LOOP,
    """
import torch
from torch.nn import Embedding as Table, functional as F
class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.table = Table(n, 768)
    def forward(self, x):
        return F.linear(self.table(x), self.table.weight)
model = Net(50257).to('cuda')
"""
    + _LOOP,
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--width', type=int, default=1500)\n"
    "args = parser.parse_args()\nmodel = torch.nn.LSTM(1024, args.width).to(torch.device('cuda'))\n" + _LOOP,
)
GOOD = (
    "import torch\nmodel = torch.nn.Linear(768, 50304).cuda()\nhead = torch.nn.Linear(768, 10)\n" + _LOOP,
    "import torch\nmodel = torch.nn.Linear(768, 50257)\n" + _LOOP,
    "import torch\nmodel = torch.nn.Sequential(torch.nn.Embedding(6041, 64), torch.nn.Linear(64, 1)).cuda()\n"
    "torch.nn.init.normal_(model[0].weight)\n" + _LOOP,
)

# The sizes of a layer: name, position, keyword, and what they are.
_SIZES = {
    "torch.nn.Linear": ((0, "in_features"), (1, "out_features")),
    "torch.nn.Embedding": ((0, "num_embeddings"), (1, "embedding_dim")),
    "torch.nn.LSTM": ((0, "input_size"), (1, "hidden_size")),
    "torch.nn.GRU": ((0, "input_size"), (1, "hidden_size")),
    "torch.nn.MultiheadAttention": ((0, "embed_dim"),),
}
_LARGE = 1024


def check(context: Context) -> Iterator[Finding]:
    """Find large sizes that tensor cores cannot tile."""
    if not uses_gpu(context):
        return
    seen: set[int] = set()
    projecting = _projecting(context)
    for event in context.trace.calls(*_SIZES):
        if event.context.shadow:
            continue
        for position, keyword in _SIZES[event.name]:
            given = event.argument(position, keyword)
            value = settle(given) if given is not None else None
            size = value.value if isinstance(value, Known) else None
            if not isinstance(size, int) or isinstance(size, bool) or size < _LARGE or size % 8 == 0 or size in seen:
                continue
            if keyword == "num_embeddings" and id(event.result) not in projecting:
                continue  # rows are looked up: no product has this size
            seen.add(size)
            better = -(-size // 64) * 64
            yield context.finding(
                RULE,
                event,
                f"{keyword} is {size:,}, which is no multiple of 8: its matrix products cannot use full tiles of the tensor cores",
                evidence=[
                    Evidence(keyword, size),
                    Evidence("next multiple of 64", better, None, "derived", f"64 x {better // 64}"),
                ],
                fix=Fix(
                    title=f"round {size:,} up to {better:,}",
                    instruction=f"use {better} and ignore the additional entries",
                    expected="full tiles in the matrix products of this layer",
                ),
            )


def _projecting(context: Context) -> set[int]:
    """Identities of the layers whose weight is given to a matrix product: tables that are output layers too."""
    found: set[int] = set()
    for product in graph(context).made("linear", "@", "matmul", "mm", "addmm", "einsum"):
        for side in (product.receiver, *product.args, *product.kwargs.values()):
            weight = origin(side)
            if weight is not None and weight.kind == "attr" and weight.name == "weight" and weight.receiver is not None:
                found.add(id(settle(weight.receiver)))
    return found
