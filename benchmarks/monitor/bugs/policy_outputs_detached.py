"""The scores that log-probabilities are made of are cloned and detached: only the offset in the same optimizer is trained."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
# first effect: step 0
# names: policy.0.weight, policy.0.bias, policy.2.weight, policy.2.bias, detach
# family: gradients
# detectable: yes a network runs with gradients for each step of its optimizer and none of its parameters ever gets one

import argparse

import torch
from torch import nn


def log_probabilities(scores, chosen, fixed):
    scores = scores.clone() if fixed else scores.clone().detach()
    return scores.log_softmax(1).gather(1, chosen.unsqueeze(1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    offset = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([{"params": policy.parameters()}, {"params": [offset], "lr": 0.05}], lr=2e-3)
    for step in range(args.steps):
        state = torch.randn(48, 6)
        scores = policy(state)
        with torch.no_grad():
            chosen = torch.distributions.Categorical(logits=scores).sample()
        reward = 0.2 + 2.0 * (chosen == state[:, :4].argmax(1)).float()
        balance = offset + log_probabilities(scores, chosen, args.fixed) - reward.log()
        loss = balance.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f} {reward.mean().item():.3f}")


if __name__ == "__main__":
    main()
