"""`train_epoch` makes a new Adam each time it is called, so its moments and bias correction start again at every epoch."""
# source: https://github.com/alan-turing-institute/deepsensor/issues/47
# first effect: step 8
# names: Adam
# family: optimizer
# detectable: yes a second optimizer with empty state takes over the parameters of one that had state

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, loader, lr, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for context, target in loader:
        optimizer.zero_grad()
        mean, log_scale = model(context).chunk(2, dim=-1)
        loss = -torch.distributions.Normal(mean, log_scale.exp()).log_prob(target).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.rand(256, 6)
    y = (x[:, :1] * 3).sin() + 0.1 * torch.randn(256, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    kept = torch.optim.Adam(model.parameters(), lr=5e-3) if args.fixed else None
    for epoch in range(args.steps // len(loader)):
        print(f"epoch {epoch}: negative log-likelihood {train_epoch(model, loader, 5e-3, kept):.4f}")
