"""Momentum with a closure in every step, which it evaluates once: a denoiser whose rate falls, and which is looked at now and then."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    clean = torch.sin(torch.rand(288, 1) * 6 + torch.linspace(0, 9, 24))
    loader = DataLoader(TensorDataset(clean[:256]), batch_size=16, shuffle=True)
    net = nn.Sequential(nn.Linear(24, 48), nn.LayerNorm(48), nn.Tanh(), nn.Dropout(0.1), nn.Linear(48, 24))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    done = 0
    while done < args.steps:
        for (batch,) in loader:
            noisy = batch + 0.3 * torch.randn_like(batch)

            def closure(noisy=noisy, batch=batch):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(net(noisy), batch)
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                return loss

            loss = optimizer.step(closure)
            schedule.step()
            done += 1
            if done == args.steps:
                break
        net.eval()
        with torch.no_grad():
            left = nn.functional.mse_loss(net(clean[256:] + 0.3 * torch.randn(32, 24)), clean[256:])
        net.train()
        print(f"step {done}: {loss.item():.4f}, held out {left.item():.4f}")


if __name__ == "__main__":
    main()
