"""An actor-critic whose critic step clips the actor's gradients once more: those of the critic are never clipped."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
# first effect: step 1
# names: critic, clip_grad_norm_
# family: clipping
# detectable: yes what is clipped between a backward pass and its step is not what the step takes

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()
torch.manual_seed(args.seed)

actor = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 3))
critic = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=1e-2)
weights = torch.randn(5, 3)
for update in range(args.steps // 2):
    state = torch.randn(64, 5)
    policy = torch.distributions.Categorical(logits=actor(state))
    action = policy.sample()
    reward = 10 * (state @ weights).gather(1, action[:, None]).squeeze(1)
    value = critic(state).squeeze(1)
    advantage = reward - value.detach()

    actor_optimizer.zero_grad()
    (-(policy.log_prob(action) * advantage).mean()).backward()
    nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
    actor_optimizer.step()

    critic_optimizer.zero_grad()
    value_loss = nn.functional.mse_loss(value, reward)
    value_loss.backward()
    nn.utils.clip_grad_norm_((critic if args.fixed else actor).parameters(), 0.5)
    critic_optimizer.step()
    if update % 10 == 0:
        print(update, f"reward {reward.mean().item():.3f} value loss {value_loss.item():.3f}")
