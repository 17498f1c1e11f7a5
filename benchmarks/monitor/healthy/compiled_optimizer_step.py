"""The step of the optimizer under torch.compile (eager backend): forward and backward pass are not, scores after each round"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=4)
parser.add_argument("--steps", type=int, default=48)
parser.add_argument("--size", type=int, default=32)
opts = parser.parse_args()
torch.manual_seed(opts.seed)

held_x = torch.randn(128, 10)
held_y = (held_x[:, :4] * 1.5).argmax(dim=1)
model = nn.Sequential(nn.Linear(10, opts.size), nn.GELU(), nn.Dropout(0.1), nn.Linear(opts.size, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(3e-3))


@torch.compile(backend="eager")
def apply_gradients():
    optimizer.step()


for number in range(opts.steps):
    x = torch.randn(64, 10)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), (x[:, :4] * 1.5).argmax(dim=1))
    loss.backward()
    apply_gradients()
    if number % 12 == 11:
        model.eval()
        with torch.no_grad():
            right = (model(held_x).argmax(dim=1) == held_y).float().mean()
        model.train()
        print(f"{number + 1} loss {loss.item():.4f} accuracy {right:.3f}")
