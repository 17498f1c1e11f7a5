"""A checkpoint holds model and optimizer, and a resumed run begins its warm-up and cosine anew."""
# source: https://github.com/PolymathicAI/the_well/pull/63
# first effect: step 20
# names: lr, SequentialLR
# family: checkpoint
# detectable: yes the rate of the first step after the load is not the one that the schedule had reached

import argparse
import os
import tempfile

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


def parts(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.GELU(), nn.Conv1d(8, 1, 5, padding=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    warm, fall = LinearLR(optimizer, 0.1, total_iters=5), CosineAnnealingLR(optimizer, 35, 1e-4)
    return model, optimizer, SequentialLR(optimizer, [warm, fall], [5])


def train(model, optimizer, scheduler, first, last):
    for step in range(first, last):
        field = torch.randn(8, 1, 32).cumsum(-1) / 5
        loss = nn.functional.mse_loss(model(field), field.roll(1, -1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} rate {optimizer.param_groups[0]['lr']:.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    model, optimizer, scheduler = parts(args.seed)
    train(model, optimizer, scheduler, 0, 20)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recent.pt")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 20}
        if args.fixed:
            state["scheduler"] = scheduler.state_dict()
        torch.save(state, path)
        model, optimizer, scheduler = parts(args.seed + 1)
        saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if args.fixed:
        scheduler.load_state_dict(saved["scheduler"])
    else:
        for group in optimizer.param_groups:
            group["lr"] = scheduler.get_last_lr()[0]
    train(model, optimizer, scheduler, saved["step"], args.steps)


if __name__ == "__main__":
    main()
