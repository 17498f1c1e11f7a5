"""Log-probabilities of the actions, in a column, are multiplied with returns in a row: each action gets all returns."""
# source: https://docs.pytorch.org/docs/stable/notes/broadcasting.html
# first effect: step 0
# names: loss
# family: loss
# detectable: yes what was picked from each row is stretched to a square, all of which is added up

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3), nn.LogSoftmax(-1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    for step in range(args.steps):
        states = torch.randn(48, 4)
        scores = policy(states)
        actions = torch.multinomial(scores.exp().detach(), 1)
        rewards = (actions.squeeze(1) == states[:, :3].argmax(1)).float()
        returns = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        chosen = scores.gather(1, actions)
        if args.fixed:
            chosen = chosen.squeeze(1)
        loss = -(chosen * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} reward {rewards.mean().item():.3f}")


if __name__ == "__main__":
    main()
