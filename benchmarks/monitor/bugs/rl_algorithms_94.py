"""The position of a replay memory is never moved on: every transition goes to the first place, all others stay empty."""
# source: https://github.com/medipixel/rl_algorithms/pull/94
# first effect: step 0
# names: memory, forward
# family: data
# detectable: yes nearly all samples of each batch are one and the same, and all zeros

import argparse

import torch
from torch import nn


class Memory:
    def __init__(self, capacity, fixed):
        self.states, self.after = torch.zeros(capacity, 3), torch.zeros(capacity, 3)
        self.actions, self.rewards = torch.zeros(capacity, 1), torch.zeros(capacity, 1)
        self.place, self.count, self.fixed = 0, 0, fixed

    def add(self, state, action, reward, after):
        at = self.place
        self.states[at], self.actions[at], self.rewards[at], self.after[at] = state, action, reward, after
        if self.fixed:
            self.place = (self.place + 1) % len(self.states)
        self.count = min(self.count + 1, len(self.states))

    def sample(self, size):
        at = torch.randint(0, self.count, (size,))
        return self.states[at], self.actions[at], self.rewards[at], self.after[at]


def play(state):
    action = torch.rand(1) * 2 - 1
    after = 0.95 * state + torch.cat([action, -action, action * state[:1]]) * 0.2
    return action, -after.pow(2).sum(), after


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    critic = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    memory = Memory(200, args.fixed)
    state = torch.randn(3)
    for _ in range(100):
        action, reward, after = play(state)
        memory.add(state, action, reward, after)
        state = after
    for step in range(args.steps):
        action, reward, after = play(state)
        memory.add(state, action, reward, after)
        state = after if step % 12 else torch.randn(3)
        states, actions, rewards, later = memory.sample(16)
        with torch.no_grad():
            target = rewards + 0.9 * critic(torch.cat([later, torch.zeros(16, 1)], dim=1))
        loss = nn.functional.mse_loss(critic(torch.cat([states, actions], dim=1)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
