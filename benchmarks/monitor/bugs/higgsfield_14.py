"""Deep Q-learning with replayed goals whose target network is copied once, before training, and never again."""
# source: https://github.com/higgsfield-ai/higgsfield/issues/14
# first effect: step 20
# names: target_model
# family: optimizer
# detectable: yes the network that gives the targets began as a copy of the one that trains and never follows it

import argparse
import random
from collections import deque

import numpy as np
import torch
from torch import nn

BITS = 5


class BitFlipping:
    def reset(self):
        self.state = np.random.randint(2, size=BITS)
        self.goal = np.random.randint(2, size=BITS)
        return self.state.copy(), self.goal

    def step(self, action):
        self.state[action] ^= 1
        done = bool((self.state == self.goal).all())
        return self.state.copy(), 0.0 if done else -1.0, done


class Model(nn.Module):
    def __init__(self, inputs, outputs, hidden=48):
        super().__init__()
        self.linear1 = nn.Linear(inputs, hidden)
        self.linear2 = nn.Linear(hidden, outputs)

    def forward(self, state, goal):
        return self.linear2(torch.relu(self.linear1(torch.cat([state, goal], 1))))


def update_target(current, target):
    target.load_state_dict(current.state_dict())


def compute_td_error(model, target_model, optimizer, buffer, batch_size=32):
    rows = random.sample(list(buffer), batch_size)
    state, action, reward, following, done, goal = (
        torch.tensor(np.array(column), dtype=torch.float32) for column in zip(*rows, strict=True)
    )
    q_value = model(state, goal).gather(1, action.long().unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_value = target_model(following, goal).max(1).values
    loss = nn.functional.mse_loss(q_value, reward + 0.9 * next_q_value * (1 - done))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    env = BitFlipping()
    model, target_model = Model(2 * BITS, BITS), Model(2 * BITS, BITS)
    update_target(model, target_model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    replay, learned, loss = deque(maxlen=2000), 0, 0.0
    while learned < args.steps:
        state, goal = env.reset()
        episode = []
        for _ in range(BITS):
            if random.random() < 0.3:
                action = random.randrange(BITS)
            else:
                with torch.no_grad():
                    values = model(torch.tensor(state).float()[None], torch.tensor(goal).float()[None])
                action = int(values.argmax())
            following, reward, done = env.step(action)
            episode.append((state, action, reward, following, done, goal))
            state = following
            if done:
                break
        reached = state
        for state_, action, reward, following, done, goal_ in episode:
            replay.append((state_, action, reward, following, done, goal_))
            same = bool((following == reached).all())
            replay.append((state_, action, 0.0 if same else -1.0, following, same, reached))
        if len(replay) < 100:
            continue
        loss = compute_td_error(model, target_model, optimizer, replay)
        learned += 1
        if args.fixed and learned % 20 == 0:
            update_target(model, target_model)
    print(f"td error {loss:.4f} after {learned} steps")


if __name__ == "__main__":
    main()
