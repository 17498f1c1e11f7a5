"""Physics-informed network for a damped oscillator: second derivatives by autograd in the loss, Adam first, LBFGS after."""

import argparse

import torch
from torch import nn


def derivative(y, t):
    return torch.autograd.grad(y, t, torch.ones_like(y), create_graph=True)[0]


class Oscillator(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.damping = nn.Parameter(torch.tensor(1.0))  # unknown, found from the data

    def forward(self, t):
        return self.net(t)


def truth(t, d=0.6, w=3.0):
    return torch.exp(-d * t) * torch.cos(w * t)


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=123)
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--size", type=int, default=24)
    args = cli.parse_args()
    torch.manual_seed(args.seed)
    model = Oscillator(args.size)
    t_data = torch.linspace(0, 1.5, 12).unsqueeze(1)
    y_data = truth(t_data)

    def objective(t):
        y = model(t)
        dy = derivative(y, t)
        ddy = derivative(dy, t)
        stiffness = 3.0**2 + model.damping**2
        residual = ddy + 2 * model.damping * dy + stiffness * y
        return 1e-3 * residual.pow(2).mean() + (model(t_data) - y_data).pow(2).mean()

    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        t = (2 * torch.rand(48, 1)).requires_grad_(True)
        loss = objective(t)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 15 == 0:
            print(f"adam {step} {loss.item():.5f} damping {model.damping.item():.3f}")

    t = torch.linspace(0, 2, 48).unsqueeze(1).requires_grad_(True)
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = objective(t)
        loss.backward()
        return loss

    for step in range(max(1, args.steps // 12)):
        loss = lbfgs.step(closure)
        print(f"lbfgs {step} {loss.item():.6f} damping {model.damping.item():.3f}")


if __name__ == "__main__":
    main()
