"""Accelerate on two CPU processes under torchrun: the loader is sharded, the model wrapped for data parallelism."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(args.seed)
    x = torch.randn(640, 6)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(6, args.size), nn.SiLU(), nn.Linear(args.size, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    while step < args.steps:
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % 10 == 0:
                mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
                accelerator.print(f"step {step} loss {mean:.4f}", flush=True)
            if step == args.steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
