"""GradScaler on the CPU with a huge initial scale: the first steps overflow and are skipped, and the scale comes down."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--size", type=int, default=64)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    model = nn.Sequential(
        nn.Linear(32, args.size), nn.ReLU(), nn.Linear(args.size, args.size), nn.ReLU(), nn.Linear(args.size, 8)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=args.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=20)
    centres = torch.randn(8, 32)
    skipped = 0
    for step in range(args.steps):
        labels = torch.randint(0, 8, (32,))
        inputs = centres[labels] + torch.randn(32, 32)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(inputs)
        loss = F.cross_entropy(output.float(), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            scheduler.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g} skipped {skipped}")
    print("skipped steps:", skipped)


if __name__ == "__main__":
    main()
