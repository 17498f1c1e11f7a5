"""The advantage that weighs the actor's actions still has the critic's graph: the actor's loss pushes the critic's estimates about."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
# first effect: step 0
# names: advantage
# family: loss
# detectable: yes the loss multiplies by the error of an estimate that it trains, and gradients go back through both

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 32), nn.Tanh())
        self.policy = nn.Linear(32, 3)
        self.value = nn.Linear(32, 1)

    def forward(self, state):
        seen = self.trunk(state)
        return Categorical(logits=self.policy(seen)), self.value(seen).squeeze(-1)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = ActorCritic()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
best = torch.randn(5, 3)
for step in range(args.steps):
    states = torch.randn(40, 5)
    policy, value = model(states)
    action = policy.sample()
    reward = (states @ best).gather(1, action[:, None]).squeeze(1)
    advantage = reward - (value.detach() if args.fixed else value)
    loss = -(policy.log_prob(action) * advantage).mean() + 0.5 * F.smooth_l1_loss(value, reward)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: reward {reward.mean().item():.3f}, value {value.mean().item():.3f}")
