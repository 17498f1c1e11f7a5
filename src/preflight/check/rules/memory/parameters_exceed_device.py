"""The parameters alone do not fit on the GPU.

## What it does
Counts the parameters of the model exactly, multiplies them by the size of their dtype, and compares with what the GPU offers.

## Why
`model.to(device)` fails before the first step.
A model of 7 billion parameters needs 26 GiB in fp32 and 13 GiB in bf16 for its weights alone.

## Fix
Load the weights in bf16, shard the model over several GPUs (FSDP, ZeRO 3), or take a smaller one.

## When to ignore
When the weights are placed piece by piece on several devices by code that cannot be followed.

## References
- Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context
from preflight.check.queries.memory_limits import overflow, runs_out_in
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="parameters-exceed-device",
    code="MEM001",
    severity="error",
    confidence="certain",
    needs=("capacity", "parameters"),
    layer="V",
    tags=("memory",),
)

_LOOP = """
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

BAD = (
    Example(
        """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-13b-hf").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = DataLoader(dataset, batch_size=1, shuffle=True)
"""
        + _LOOP,
        gpu="a10g",
    ),
    Example(
        """
import argparse
import torch
from torch.utils.data import DataLoader
import transformers as hf
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="meta-llama/Llama-2-13b-hf")
args = parser.parse_args()
def build(name):
    return hf.AutoModelForCausalLM.from_pretrained(name)
model = build(args.model).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(dataset, batch_size=1, shuffle=True)
"""
        + _LOOP,
        gpu="RTX 4090",
    ),
    Example(
        """
from dataclasses import dataclass
import torch
import torch.nn as nn
from torch.optim import AdamW as Optimizer
from torch.utils.data import DataLoader
@dataclass
class Config:
    width: int = 65536
    depth: int = 4
class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(config.width, config.width) for _ in range(config.depth)])
    def forward(self, x):
        return self.layers(x)
model = Net(Config()).cuda()
optimizer = Optimizer(model.parameters())
loader = DataLoader(dataset, batch_size=8, shuffle=True)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
        gpu="t4",
    ),
)

GOOD = (
    Example(
        """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-13b-hf", torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
loader = DataLoader(dataset, batch_size=1, shuffle=True)
"""
        + _LOOP,
        gpu="h100",
    ),
    Example(
        """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = DataLoader(dataset, batch_size=512, shuffle=True)
"""
        + _LOOP,
        gpu="t4",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs whose model does not fit."""
    if runs_out_in(context, "init"):
        yield from overflow(context, RULE, "the parameters alone do not fit: the run")
