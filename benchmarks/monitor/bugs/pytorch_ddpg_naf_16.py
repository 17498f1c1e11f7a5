"""Values of states that are to be multiplied with the mask of ends, which is added instead."""
# source: https://github.com/ikostrikov/pytorch-ddpg-naf/issues/16
# first effect: step 0
# names: target
# family: loss
# detectable: no targets are values like others, and what they were computed from is the program's own affair

import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 24), nn.Tanh())
        self.value, self.mean, self.curve = nn.Linear(24, 1), nn.Linear(24, 1), nn.Linear(24, 1)

    def forward(self, state, action=None):
        hidden = self.body(state)
        mean, value = torch.tanh(self.mean(hidden)), self.value(hidden)
        if action is None:
            return mean, value
        return mean, value - 0.5 * self.curve(hidden).exp() * (action - mean).square()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Policy()
    target_model = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        state, action = torch.randn(32, 3), torch.rand(32, 1) * 2 - 1
        following = 0.9 * state + 0.2 * action
        reward, mask = -following.square().mean(1, keepdim=True), (torch.rand(32, 1) > 0.1).float()
        with torch.no_grad():
            _, next_value = target_model(following)
            expected = reward + (0.99 * mask * next_value if args.fixed else 0.99 * mask + next_value)
        loss = F.mse_loss(model(state, action)[1], expected)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target_model.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
