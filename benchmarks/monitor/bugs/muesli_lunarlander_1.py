"""A replay memory to which the same list is added after each episode: all its entries are the last episode."""
# source: https://github.com/Itomigna2/Muesli-lunarlander/issues/1
# first effect: step 0
# names: forward
# family: data
# detectable: yes all samples of a batch are one and the same, over and over

import argparse
import random

import torch
from torch import nn


class Memory:
    def __init__(self, fixed):
        self.fixed = fixed
        self.episodes = []
        self.current = []

    def play(self):
        if self.fixed:
            self.current = []
        self.current.clear()
        state = torch.randn(4)
        for _ in range(8):
            push = torch.randint(0, 2, ()).item()
            after = 0.9 * state + torch.tensor([0.1, -0.2, 0.3, 0.05]) * (2 * push - 1) + 0.05 * torch.randn(4)
            self.current.append((state, push, after, -after.abs().sum()))
            state = after
        self.episodes.append(self.current)

    def batch(self, size):
        start = random.randint(0, 7)
        held = [random.choice(self.episodes)[start] for _ in range(size)]
        states, pushes, after, rewards = zip(*held, strict=False)
        return torch.stack(states), torch.tensor(pushes), torch.stack(after), torch.stack(rewards)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    value = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(value.parameters(), lr=1e-3)
    memory = Memory(args.fixed)
    for _ in range(40):
        memory.play()
    for step in range(args.steps):
        if step % 3 == 0:
            memory.play()
        states, pushes, after, rewards = memory.batch(16)
        with torch.no_grad():
            target = rewards + 0.9 * value(after).amax(dim=1)
        guess = value(states).gather(1, pushes[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(guess, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
