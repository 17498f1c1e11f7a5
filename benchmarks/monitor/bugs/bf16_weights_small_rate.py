"""The weights themselves are bfloat16 and the rate is small: nearly every update is rounded away."""
# source: https://github.com/workofart/ml-by-hand/pull/85
# first effect: step 0
# names: 0.weight, 1.weight, 3.weight, bfloat16
# family: precision
# detectable: yes most elements with a non-zero gradient are the same bit for bit after the step

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true", help="keep fp32 weights and compute in bf16 under autocast")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = nn.Sequential(nn.Embedding(64, 64), nn.RMSNorm(64), nn.ReLU(), nn.Linear(64, 64, bias=False))
if not args.fixed:
    model = model.to(torch.bfloat16)
with torch.no_grad():
    model[0].weight.mul_(3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
permutation = torch.randperm(64)
for step in range(args.steps):
    ids = torch.randint(0, 64, (256,))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.fixed):
        logits = model(ids)
    loss = nn.functional.cross_entropy(logits.float(), permutation[ids])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0 or step == args.steps - 1:
        print(f"step {step} loss {loss.item():.4f}")
