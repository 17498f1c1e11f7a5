"""Sees the soft-max of scores of sequence x sequence that is kept for the backward pass, with its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.memory.attention_written_out import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.seen import Observation

_STEPS = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(2, 256, 32).cuda()).square().mean().backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.product = nn.Linear(32, 96), torch.matmul
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.product(q, k.mT) / 8 ** 0.5
        return self.product(scores.softmax(-1), v).transpose(1, 2).flatten(2)
net = nn.Sequential(Attention(), Attention()).cuda()
{_STEPS}""",
    f"""
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.soft = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32), nn.Softmax(dim=2)
        self.register_buffer("mask", torch.ones(256, 256).tril() == 0)
    def forward(self, x):
        energy = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) * 0.1
        return torch.bmm(self.soft(energy.masked_fill(self.mask, float("-inf"))), self.v(x))
net = Attention().cuda()
{_STEPS}""",
    f"""
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
    def forward(self, x):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 8).unbind(2)
        a = torch.einsum("bqhd,bkhd->bhqk", q, k)
        return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(a, dim=-1), v).flatten(2)
net = Attention().to("cuda")
{_STEPS}""",
)

GOOD = (
    f"""
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.gate = nn.Linear(32, 96), nn.Linear(32, 256)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        out = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return out * self.gate(x).softmax(-1).mean(-1, keepdim=True)
net = Attention().cuda()
{_STEPS}""",
)

_BETWEEN = frozenset("div mul add sub masked_fill where relu tanh native_dropout clamp".split())
_PRODUCTS = frozenset("bmm baddbmm matmul".split())
_BYTES = {"float32": 4, "float64": 8}
_SHORT = 128  # positions: below, the scores are small beside the rest


def observe(run: Run) -> Iterator[Finding]:
    """Look for soft-maxes over what a batched product made, as long as they are wide."""
    found = [i for i in run.seen("softmax") if i.data["graph"] and i.step == 0 and _of_scores(i)]
    lines: dict[str, list[Observation]] = {}
    for item in found:
        lines.setdefault(item.line, []).append(item)
    for line, items in lines.items():
        # The scores or what scaled them, and their soft-max: backward needs the soft-max of each layer.
        size = sum(prod(i.data["shape"]) * _BYTES.get(i.data["dtype"], 2) * i.count for i in items)
        shape, layers = tuple(items[0].data["shape"]), sum(i.count for i in items)
        yield run.finding(
            RULE,
            line,
            f"attention is written out: the soft-max of shape {shape} is kept {layers} time{'s' if layers > 1 else ''} for the "
            f"backward pass, {format_bytes(size)}",
            evidence=[
                seen("shape of the scores", str(shape)),
                seen("soft-maxes in a step", layers),
                seen("bytes of the soft-maxes", size, "bytes"),
            ],
            fix=Fix(
                title="use scaled_dot_product_attention",
                instruction="torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., dropout_p=..., "
                "is_causal=...)",
                expected=f"{format_bytes(size)} less of activations, and as much again for each further copy of the scores",
            ),
            confidence="certain",
        )


def _of_scores(item: Observation) -> bool:
    shape, path = item.data["shape"], [p for p in item.data["path"] if p not in _BETWEEN]
    wide = len(shape) >= 3 and item.data["dim"] == len(shape) - 1 and min(shape[-2:]) >= _SHORT
    return wide and bool(path) and path[0] in _PRODUCTS
