"""An actor-critic whose critic is drawn through its own bootstrapped targets, all along the trajectory."""
# source: https://github.com/Farama-Foundation/Gymnasium/issues/1494
# first effect: step 0
# names: critic
# family: loss
# detectable: no gradients through bootstrapped values are a method of their own, too (residual gradients)

import argparse

import torch
from torch import nn
from torch.distributions import Categorical


class Corridors:
    """Many corridors at once: the right end pays, the left end costs."""

    def __init__(self, count, length=7):
        self.length = length
        self.place = torch.full((count,), length // 2)

    def observe(self):
        return nn.functional.one_hot(self.place, self.length).float()

    def step(self, actions):
        self.place = self.place + 2 * actions - 1
        ended = (self.place <= 0) | (self.place >= self.length - 1)
        reward = (self.place >= self.length - 1).float() - (self.place <= 0).float() - 0.01
        self.place = torch.where(ended, self.length // 2, self.place)
        return reward, ended


class A2C(nn.Module):
    def __init__(self, features, actions):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, actions))

    def forward(self, x):
        return self.critic(x).squeeze(-1), Categorical(logits=self.actor(x))


def losses(rewards, log_probs, values, masks, entropy, fixed, gamma=0.95, lam=0.9):
    advantages, gae = [], 0.0
    for t in reversed(range(len(rewards))):
        following = values[t + 1].detach() if fixed else values[t + 1]
        here = values[t].detach() if fixed else values[t]
        gae = rewards[t] + gamma * masks[t] * following - here + gamma * lam * masks[t] * gae
        advantages.insert(0, gae)
    advantages = torch.stack(advantages)
    if fixed:
        critic = nn.functional.mse_loss(values[:-1], advantages + values[:-1].detach())
    else:
        critic = advantages.pow(2).mean()
    return critic, -(advantages.detach() * log_probs).mean() - 0.01 * entropy.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    envs, agent = Corridors(8), A2C(7, 2)
    critic_optim = torch.optim.RMSprop(agent.critic.parameters(), lr=5e-3)
    actor_optim = torch.optim.RMSprop(agent.actor.parameters(), lr=1e-3)
    for phase in range(args.steps // 2):
        rewards, log_probs, values, masks, entropies = [], [], [], [], []
        for _ in range(16):
            value, policy = agent(envs.observe())
            action = policy.sample()
            reward, ended = envs.step(action)
            rewards.append(reward)
            log_probs.append(policy.log_prob(action))
            values.append(value)
            masks.append(1 - ended.float())
            entropies.append(policy.entropy())
        values.append(agent(envs.observe())[0])
        values, log_probs = torch.stack(values), torch.stack(log_probs)
        critic_loss, actor_loss = losses(rewards, log_probs, values, masks, torch.stack(entropies), args.fixed)
        critic_optim.zero_grad()
        critic_loss.backward()
        critic_optim.step()
        actor_optim.zero_grad()
        actor_loss.backward()
        actor_optim.step()
        if phase % 10 == 0:
            print(f"{phase}: reward {torch.stack(rewards).mean().item():.3f}, critic {critic_loss.item():.3f}")


if __name__ == "__main__":
    main()
