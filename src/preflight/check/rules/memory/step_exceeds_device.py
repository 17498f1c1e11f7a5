"""The training step does not fit on the GPU.

## What it does
Adds up what is on the GPU at the peak of the step: parameters, gradients, optimizer states, activations kept for the backward pass, logits and loss, workspace, fragmentation and the driver's context.
It names the first phase and step at which the sum exceeds the GPU, and the largest batch that fits.

## Why
The run ends with `CUDA out of memory`, in the first step, or later: Adam's states appear at the end of step 0, and the peak of a run over samples of varying length comes with the longest one.

## Fix
A smaller batch per GPU with gradient accumulation, gradient checkpointing, bf16 autocast, an 8-bit optimizer, or sharding.

## When to ignore
When the sizes that the script shows are not the ones that will run: give them after `--`.

## References
- Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context
from preflight.check.queries.memory_limits import overflow, runs_out_in
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="step-exceeds-device",
    code="MEM002",
    severity="error",
    confidence="certain",
    needs=("capacity", "memory"),
    layer="V",
    tags=("memory",),
)

BAD = (
    Example(
        """
import torch
from torch.utils.data import DataLoader
from torchvision.models import resnet152
from torchvision import datasets, transforms
model = resnet152().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=8)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
""",
        gpu="v100",
    ),
    Example(
        """
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
class Windows(Dataset):
    def __init__(self, data, length):
        self.data, self.length = data, length
    def __len__(self):
        return len(self.data) - self.length
    def __getitem__(self, i):
        return self.data[i : i + self.length], self.data[i + 1 : i + 1 + self.length]
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 16, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))
class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Embedding(50304, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 50304)
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=2048)
    args = parser.parse_args()
    model = Model(1024, 24).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(Windows(tokens, args.length), batch_size=args.batch_size, shuffle=True, num_workers=4)
    for x, y in loader:
        optimizer.zero_grad()
        logits = model(x.cuda())
        F.cross_entropy(logits.view(-1, 50304), y.view(-1).cuda()).backward()
        optimizer.step()
main()
""",
        gpu="rtx4090",
    ),
    Example(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("gpt2-xl")
def encode(rows):
    return tokenizer(rows["text"], truncation=True, padding="max_length", max_length=1024)
def run(size):
    arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=size, bf16=True)
    Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2-xl"), args=arguments, train_dataset=rows.map(encode)).train()
run(16)
""",
        gpu="A100-40GB",
    ),
)

GOOD = (
    Example(
        """
import torch
from torch.utils.data import DataLoader
from torchvision.models import resnet152
from torchvision import datasets, transforms
model = resnet152().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=8)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
""",
        gpu="v100",
    ),
    Example(
        """
import torch
from torch.utils.data import DataLoader
from torchvision.models import resnet152
model = resnet152().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(images_of_a_size_that_is_not_known, batch_size=512, shuffle=True, num_workers=8)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
""",
        gpu="v100",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs whose step does not fit."""
    if runs_out_in(context, "forward", "backward", "eval"):
        yield from overflow(context, RULE, "the run")
