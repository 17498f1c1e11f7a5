"""REINFORCE with a learned baseline on a small corridor world; one update for each finished episode."""

import argparse
import random
from collections import deque

import torch
import torch.nn as nn
from torch.distributions import Categorical


class Corridor:
    """Walk right to the goal; every move costs a little and slips sometimes."""

    def __init__(self, length=8, rng=None):
        self.length, self.rng = length, rng or random.Random(0)

    def _obs(self):
        v = torch.zeros(self.length)
        v[self.pos] = 1.0
        return v

    def reset(self):
        self.pos, self.t = self.length // 2, 0
        return self._obs()

    def step(self, action):
        move = 1 if action == 1 else -1
        if self.rng.random() < 0.1:
            move = -move
        self.pos = min(max(self.pos + move, 0), self.length - 1)
        self.t += 1
        won = self.pos == self.length - 1
        return self._obs(), (1.0 if won else -0.05), won or self.t >= 20


class ActorCritic(nn.Module):
    def __init__(self, n_obs, hidden):
        super().__init__()
        self.affine = nn.Linear(n_obs, hidden)
        self.action_head = nn.Linear(hidden, 2)
        self.value_head = nn.Linear(hidden, 1)

    def forward(self, x):
        x = torch.relu(self.affine(x))
        return Categorical(logits=self.action_head(x)), self.value_head(x).squeeze(-1)


def finish_episode(saved, rewards, optimizer, gamma):
    R, returns = 0.0, deque()
    for r in reversed(rewards):
        R = r + gamma * R
        returns.appendleft(R)
    returns = torch.tensor(list(returns))
    log_probs = torch.stack([lp for lp, _ in saved])
    values = torch.stack([v for _, v in saved])
    advantage = returns - values.detach()
    loss = -(log_probs * advantage).sum() + nn.functional.smooth_l1_loss(values, returns, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=543)
    parser.add_argument("--steps", type=int, default=60, help="episodes")
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    env = Corridor(rng=random.Random(args.seed))
    policy = ActorCritic(env.length, args.size)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    running = 0.0
    for episode in range(args.steps):
        state, done, saved, rewards = env.reset(), False, [], []
        while not done:
            dist, value = policy(state)
            action = dist.sample()
            saved.append((dist.log_prob(action), value))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
        running = 0.9 * running + 0.1 * sum(rewards)
        loss = finish_episode(saved, rewards, optimizer, args.gamma)
        if episode % 10 == 0:
            print(f"Episode {episode}\tloss {loss:.3f}\tlast reward {sum(rewards):.2f}\taverage {running:.2f}")


if __name__ == "__main__":
    main()
