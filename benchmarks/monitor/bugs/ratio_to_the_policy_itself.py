"""The old log-probabilities of PPO are computed in each epoch with the policy as it is then: the ratio is one, and nothing is ever clipped."""
# source: https://arxiv.org/abs/1707.06347
# first effect: step 1
# names: ratio
# family: loss
# detectable: yes all ratios are exactly one in later epochs over the same samples, although the policy has changed

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

CLIP, EPOCHS = 0.2, 4


def log_probabilities(actor, states, actions):
    return Categorical(logits=actor(states)).log_prob(actions)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
    critic = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=5e-3)
    best = torch.randn(6, 3)
    for _ in range(args.steps // EPOCHS):
        states = torch.randn(64, 6)
        with torch.no_grad():
            actions = Categorical(logits=actor(states)).sample()
            rewards = ((states @ best).argmax(1) == actions).float()
            stored = log_probabilities(actor, states, actions)
            advantages = rewards - critic(states).squeeze(1)
        for _ in range(EPOCHS):
            old = stored
            if not args.fixed:
                with torch.no_grad():
                    old = log_probabilities(actor, states, actions)
            ratio = torch.exp(log_probabilities(actor, states, actions) - old)
            clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
            gain = torch.min(ratio * advantages, clipped * advantages).mean()
            loss = 0.5 * F.mse_loss(critic(states).squeeze(1), rewards) - gain
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"reward {rewards.mean().item():.3f}")


if __name__ == "__main__":
    main()
