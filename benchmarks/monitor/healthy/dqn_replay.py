"""Deep Q-learning with a replay buffer, epsilon-greedy exploration and a target network copied every few updates."""

import argparse
import random
from collections import deque, namedtuple

import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state done")


class ReplayBuffer:
    def __init__(self, capacity, rng):
        self.memory, self.rng = deque(maxlen=capacity), rng

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return Transition(*zip(*self.rng.sample(list(self.memory), n), strict=True))

    def __len__(self):
        return len(self.memory)


class GridWorld:
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def __init__(self, n, rng):
        self.n, self.rng = n, rng

    def observe(self):
        return torch.tensor([self.x, self.y, self.gx, self.gy], dtype=torch.float32) / self.n

    def reset(self):
        self.x, self.y = self.rng.randrange(self.n), self.rng.randrange(self.n)
        self.gx, self.gy = self.n - 1, self.n - 1
        self.t = 0
        return self.observe()

    def step(self, action):
        dx, dy = self.moves[action]
        self.x = min(max(self.x + dx, 0), self.n - 1)
        self.y = min(max(self.y + dy, 0), self.n - 1)
        self.t += 1
        reached = (self.x, self.y) == (self.gx, self.gy)
        return self.observe(), 1.0 if reached else -0.02, reached, reached or self.t > 25


class Agent:
    def __init__(self, hidden, rng, lr=2e-3, gamma=0.97, sync_every=10):
        def build():
            return nn.Sequential(
                nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 4)
            )

        self.policy_net, self.target_net = build(), build()
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.target_net.eval()
        self.optimizer = torch.optim.RMSprop(self.policy_net.parameters(), lr=lr)
        self.gamma, self.sync_every, self.rng = gamma, sync_every, rng
        self.updates = 0

    def act(self, state, eps):
        if self.rng.random() < eps:
            return self.rng.randrange(4)
        with torch.no_grad():
            return int(self.policy_net(state).argmax())

    def learn(self, batch):
        state, next_state = torch.stack(batch.state), torch.stack(batch.next_state)
        action = torch.tensor(batch.action).unsqueeze(1)
        reward, done = torch.tensor(batch.reward), torch.tensor(batch.done, dtype=torch.float32)
        q = self.policy_net(state).gather(1, action).squeeze(1)
        with torch.no_grad():
            target = reward + self.gamma * (1 - done) * self.target_net(next_state).max(1).values
        loss = nn.functional.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(self.policy_net.parameters(), 1.0)
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())
        return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--size", type=int, default=48)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed)
    env, agent, buffer = GridWorld(5, rng), Agent(a.size, rng), ReplayBuffer(500, rng)
    state, frame = env.reset(), 0
    while agent.updates < a.steps:
        action = agent.act(state, eps=max(0.1, 1 - frame / 150))
        nxt, reward, terminal, over = env.step(action)
        buffer.push(state, action, reward, nxt, terminal)
        state = env.reset() if over else nxt
        frame += 1
        if len(buffer) >= 64 and frame % 2 == 0:
            loss = agent.learn(buffer.sample(32))
            if agent.updates % 20 == 0:
                print(f"updates {agent.updates} frames {frame} td loss {loss:.5f}")


main()
