"""Deterministic policy gradients: the critic's target follows its network, the actor's stays where it began."""
# source: https://github.com/kakaoenterprise/JORLDY/issues/120
# first effect: step 2
# names: target_actor
# family: optimizer
# detectable: yes of two networks that began as copies and are asked together, one is brought on after each round and the other never

import argparse
import copy
import random
from collections import deque

import torch
from torch import nn
from torch.nn import functional as F


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(3, 32), nn.Linear(32, 1)

    def forward(self, state):
        return torch.tanh(self.out(F.relu(self.body(state))))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, state, action):
        return self.out(F.relu(self.body(torch.cat([state, action], -1))))


class DDPG:
    def __init__(self, fixed, gamma=0.95, tau=0.02):
        self.actor, self.critic = Actor(), Critic()
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=5e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.memory = deque(maxlen=500)
        self.fixed, self.gamma, self.tau = fixed, gamma, tau

    @torch.no_grad()
    def act(self, state):
        return (self.actor(state) + 0.2 * torch.randn(1)).clamp(-1, 1)

    def learn(self):
        state, action, reward, next_state = map(torch.stack, zip(*random.sample(self.memory, 32), strict=True))
        with torch.no_grad():
            target = reward + self.gamma * self.target_critic(next_state, self.target_actor(next_state))
        critic_loss = F.mse_loss(self.critic(state, action), target)
        self.critic_optimizer.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(state, self.actor(state)).mean()
        self.actor_optimizer.zero_grad(set_to_none=True)
        actor_loss.backward()
        self.actor_optimizer.step()
        return critic_loss.item()

    def update_target_soft(self):
        pairs = [(self.critic, self.target_critic)]
        if self.fixed:
            pairs.append((self.actor, self.target_actor))
        for network, target in pairs:
            for ours, theirs in zip(network.parameters(), target.parameters(), strict=True):
                theirs.data.copy_(self.tau * ours.data + (1 - self.tau) * theirs.data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    agent = DDPG(args.fixed)
    state = torch.randn(3)
    losses = []
    for time in range(40 + args.steps // 2):
        action = agent.act(state)
        following = 0.9 * state + 0.3 * action + 0.05 * torch.randn(3)
        agent.memory.append((state, action, -following.square().sum(0, keepdim=True), following))
        state = following
        if time >= 40:
            losses.append(agent.learn())
            agent.update_target_soft()
    print(f"critic loss {sum(losses[-10:]) / 10:.4f}")


if __name__ == "__main__":
    main()
