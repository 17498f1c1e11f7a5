"""What scaler.scale(loss) gives back is thrown away, and the loss itself goes backward: its gradients are divided by the scale."""
# source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html
# first effect: step 0
# names: scaler.scale, backward
# family: precision
# detectable: yes no gradients come to any loss that was scaled before a step of the scaler

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(args.steps):
        labels = torch.randint(0, 8, (32,))
        points = torch.randn(32, 16)
        points[torch.arange(32), labels] += 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(points), labels)
        optimizer.zero_grad()
        scaled = scaler.scale(loss)
        (scaled if args.fixed else loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
