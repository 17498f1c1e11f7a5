"""The checkpoint holds weights and schedule but not the moments of AdamW, which start from zero after the resume."""
# source: https://github.com/EvolvingLMMs-Lab/OneVision-Encoder/pull/65
# first effect: step 15
# names: AdamW, save, load_state_dict
# family: checkpoint
# detectable: yes trained weights are loaded while the optimizer of the same run starts with empty state

import argparse
import os
import tempfile

import torch
from torch import nn


def build():
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 5))
    return model, optimizer, scheduler


def save_checkpoint(path, model, optimizer, scheduler, step, fixed):
    state = {"model": model.state_dict(), "scheduler": scheduler.state_dict(), "step": step}
    state["rng"] = torch.get_rng_state()
    if fixed:
        state["optimizer"] = optimizer.state_dict()
    torch.save(state, path)


def load_checkpoint(path, model, optimizer, scheduler):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    if "optimizer" in state:
        optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    for group, rate in zip(optimizer.param_groups, scheduler.get_last_lr(), strict=True):
        group["lr"] = rate
    torch.set_rng_state(state["rng"])
    return state["step"]


def run(model, optimizer, scheduler, start, stop, mixing):
    for step in range(start, stop):
        x = torch.randn(64, 16)
        loss = nn.functional.mse_loss(model(x), x @ mixing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 5 == 4:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    mixing = torch.randn(16, 16) / 4
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        parts = build()
        run(*parts, 0, 15, mixing)
        save_checkpoint(path, *parts, 15, args.fixed)
        parts = build()
        run(*parts, load_checkpoint(path, *parts), args.steps, mixing)
