"""The running loss that is printed is a sum of tensors, and keeps the graph of every loss since the beginning."""
# source: https://docs.pytorch.org/docs/stable/notes/faq.html
# first effect: step 1
# names: loss
# family: loss
# detectable: yes no graph of an earlier loss is ever let go

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=80)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
target = torch.randint(0, 5, (480,))
data = TensorDataset(torch.randn(5, 12)[target] + torch.randn(480, 12), target)
loader = DataLoader(data, batch_size=24, shuffle=True)
running, step = 0.0, 0
for _ in range(max(1, args.steps // len(loader))):
    for features, kinds in loader:
        loss = nn.functional.cross_entropy(model(features), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() if args.fixed else loss
        step += 1
    print(f"step {step}: mean loss {float(running) / step:.3f}")
