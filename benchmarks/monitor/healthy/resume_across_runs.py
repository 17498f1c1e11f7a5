"""The program interrupts itself halfway and is run again as a child process, which resumes from the newest checkpoint."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def newest(folder):
    found = sorted(Path(folder).glob("step_*.pt"))
    return found[-1] if found else None


def save(folder, step, epoch, model, optimizer, scheduler):
    path = Path(folder) / f"step_{step:06d}.pt"
    temporary = path.with_suffix(".tmp")
    torch.save(
        {
            "step": step,
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        },
        temporary,
    )
    os.replace(temporary, path)


def train(args, folder):
    torch.manual_seed(args.seed)
    g = torch.Generator().manual_seed(args.seed)
    x = torch.randn(320, 7, generator=g)
    dataset = TensorDataset(x, x.prod(1, keepdim=True).tanh() + x[:, :1])
    model = nn.Sequential(nn.Linear(7, args.size), nn.SELU(), nn.Linear(args.size, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4, 6], gamma=0.5)
    step, epoch = 0, 0
    checkpoint = newest(folder)
    if checkpoint is not None:
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        step, epoch = state["step"], state["epoch"]
        print(f"resumed from {checkpoint.name}", flush=True)

    while step < args.steps:
        order = torch.Generator().manual_seed(args.seed + epoch)  # the order of an epoch does not depend on the past
        loader = DataLoader(dataset, batch_size=32, shuffle=True, generator=order)
        total = 0.0
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            step += 1
        scheduler.step()
        epoch += 1
        save(folder, step, epoch, model, optimizer, scheduler)
        print(f"epoch {epoch} step {step} loss {total / len(loader):.4f}", flush=True)
        if args.preempt_at and step >= args.preempt_at:
            return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--folder", help="resume from here, or start here")
    parser.add_argument("--preempt-at", type=int, default=0)
    args = parser.parse_args()
    if args.folder:
        train(args, args.folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            args.preempt_at = max(1, args.steps // 2)
            if not train(args, folder):
                again = ["--seed", args.seed, "--steps", args.steps, "--size", args.size, "--folder", folder]
                sys.exit(subprocess.run([sys.executable, __file__, *map(str, again)]).returncode)
