"""Micro-batches left over at the end of an epoch are passed back and wiped out by the next epoch before any step."""
# source: https://github.com/NVIDIA-NeMo/Automodel/pull/2257
# first effect: step 4
# names: zero_grad
# family: gradients
# detectable: yes gradients of two backward passes are cleared without a step that used them

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(144, 16)
    data = TensorDataset(x, torch.sin(x[:, :3]).sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    drafter = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=2e-3)
    accumulate = 4
    for epoch in range(args.steps // 4):
        optimizer.zero_grad()
        pending = 0
        for features, wanted in loader:
            loss = nn.functional.mse_loss(drafter(features), wanted)
            (loss / accumulate).backward()
            pending += 1
            if pending == accumulate:
                optimizer.step()
                optimizer.zero_grad()
                pending = 0
        if pending and args.fixed:
            for parameter in drafter.parameters():
                parameter.grad.mul_(accumulate / pending)
            optimizer.step()
            optimizer.zero_grad()
        if epoch % 2 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
