"""The critic's column of advantages is multiplied with a row of ratios, so that the policy's loss is a mean over all pairs."""
# source: https://github.com/RITCHIEHuang/DeepRL_Algorithms/issues/13
# first effect: step 0
# names: loss
# family: loss
# detectable: yes what each action gave is multiplied with the ratios of all other actions, too

import argparse

import torch
from torch import nn
from torch.distributions import Normal

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
actor = torch.optim.Adam(policy.parameters(), lr=1e-3)
judge = torch.optim.Adam(critic.parameters(), lr=1e-3)
best = torch.randn(6, 2)
for turn in range(args.steps // 8):
    with torch.no_grad():
        states = torch.randn(48, 6)
        acting = Normal(policy(states), 0.5)
        actions = acting.sample()
        before = acting.log_prob(actions).sum(1)
        rewards = -(actions - states @ best).square().sum(1, keepdim=True)
        advantages = rewards - critic(states)
        advantages = (advantages - advantages.mean()) / advantages.std()
    for _ in range(4):
        value_loss = nn.functional.mse_loss(critic(states), rewards)
        judge.zero_grad()
        value_loss.backward()
        judge.step()
        ratio = (Normal(policy(states), 0.5).log_prob(actions).sum(1) - before).exp()
        weights = advantages.squeeze(1) if args.fixed else advantages
        gain = torch.min(ratio * weights, ratio.clamp(0.8, 1.2) * weights)
        actor.zero_grad()
        (-gain.mean()).backward()
        actor.step()
    print(f"turn {turn}: reward {rewards.mean().item():.3f}, value loss {value_loss.item():.3f}")
