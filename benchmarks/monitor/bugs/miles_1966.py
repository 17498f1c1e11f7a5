"""The scores of the old policy are live when they enter the ratio: what the new ones gain they lose, and the policy gets a gradient of zero."""
# source: https://github.com/radixark/miles/pull/1966
# first effect: step 0
# names: actor
# family: gradients
# detectable: yes all gradients of the policy's own head are exactly zero while those of the critic are not

import argparse

import torch
from torch import nn
from torch.nn import functional as F

STATES, ACTIONS = 10, 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(STATES, 24)
        self.actor = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, ACTIONS))
        self.critic = nn.Linear(24, 1)

    def forward(self, state, action):
        hidden = torch.tanh(self.embed(state))
        scores = self.actor(hidden).log_softmax(-1)
        return scores.gather(1, action[:, None]).squeeze(1), self.critic(hidden).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        state = torch.randint(0, STATES, (64,))
        action = torch.randint(0, ACTIONS, (64,))
        reward = (action == state % ACTIONS).float()
        old, _ = model(state, action)
        new, value = model(state, action)
        if args.fixed:
            old = old.detach()
        gain = reward - value.detach()
        ratio = (new - old).exp()
        policy_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        loss = policy_loss + 0.5 * F.mse_loss(value, reward)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
