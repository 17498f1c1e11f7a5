"""LBFGS with a closure in double precision: an LSTM cell learns to continue damped waves from all of them at once."""

import argparse
import math

import torch
from torch import nn


class Continuation(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.cell = nn.LSTMCell(1, hidden)
        self.read = nn.Linear(hidden, 1)

    def forward(self, waves, extra=0):
        state, said = None, []
        for value in waves.unbind(1):
            state = self.cell(value[:, None], state)
            said.append(self.read(state[0]))
        for _ in range(extra):
            state = self.cell(said[-1], state)
            said.append(self.read(state[0]))
        return torch.cat(said, dim=1)


def damped_waves(n, length, gen):
    phase = torch.rand(n, 1, generator=gen, dtype=torch.float64) * 2 * math.pi
    t = torch.arange(length, dtype=torch.float64)
    return torch.sin(t / 3 + phase) * torch.exp(-t / 60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30, help="calls of step; each makes up to three evaluations")
    parser.add_argument("--size", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train, test = damped_waves(10, 24, gen), damped_waves(3, 24, gen)
    net = Continuation(args.size).to(torch.float64)
    mse = nn.MSELoss()
    lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.7, max_iter=3, history_size=20)

    def closure():
        lbfgs.zero_grad()
        error = mse(net(train[:, :-1]), train[:, 1:])
        error.backward()
        return error

    for k in range(args.steps):
        error = lbfgs.step(closure)
        if k % 5 == 0:
            with torch.no_grad():
                ahead = net(test[:, :-5], extra=4)
            print(f"call {k}: train {error.item():.5f}, five ahead {mse(ahead, test[:, 1:]).item():.5f}")


if __name__ == "__main__":
    main()
