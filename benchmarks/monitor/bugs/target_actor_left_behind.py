"""The delayed update of the targets brings on both critics' targets and forgets the actor's, which goes on acting untrained."""
# source: https://spinningup.openai.com/en/latest/algorithms/td3.html
# first effect: step 3
# names: slow_actor
# family: optimizer
# detectable: yes a target network rests that is asked together with others that follow

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Actor(nn.Module):
    def __init__(self, seen=5, acts=2):
        super().__init__()
        self.inner, self.outer = nn.Linear(seen, 40), nn.Linear(40, acts)

    def forward(self, state):
        return torch.tanh(self.outer(F.relu(self.inner(state))))


class Critic(nn.Module):
    def __init__(self, seen=5, acts=2):
        super().__init__()
        self.inner, self.outer = nn.Linear(seen + acts, 40), nn.Linear(40, 1)

    def forward(self, state, act):
        return self.outer(F.relu(self.inner(torch.cat([state, act], 1))))


def follow(slow, net, share=0.01):
    with torch.no_grad():
        for old, new in zip(slow.parameters(), net.parameters(), strict=True):
            old.lerp_(new, share)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    actor, first, second = Actor(), Critic(), Critic()
    slow_actor, slow_first, slow_second = copy.deepcopy(actor), copy.deepcopy(first), copy.deepcopy(second)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3)
    for step in range(2 * args.steps // 3):
        state, act = torch.randn(48, 5), 2 * torch.rand(48, 2) - 1
        reward = -(act - state[:, :2].tanh()).square().sum(1, keepdim=True)
        after, ended = 0.9 * state + 0.1 * torch.randn(48, 5), (torch.rand(48, 1) < 0.1).float()
        with torch.no_grad():
            noise = (0.2 * torch.randn(48, 2)).clamp(-0.5, 0.5)
            then = (slow_actor(after) + noise).clamp(-1, 1)
            goal = reward + 0.98 * (1 - ended) * torch.min(slow_first(after, then), slow_second(after, then))
        loss = F.mse_loss(first(state, act), goal) + F.mse_loss(second(state, act), goal)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        if step % 2:
            value = -first(state, actor(state)).mean()
            actor_optimizer.zero_grad()
            value.backward()
            actor_optimizer.step()
            follow(slow_first, first)
            follow(slow_second, second)
            if args.fixed:
                follow(slow_actor, actor)
        if step % 10 == 0:
            print(f"step {step}: critics {loss.item():.3f}")


if __name__ == "__main__":
    main()
