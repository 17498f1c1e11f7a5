"""Soft actor-critic: twin critics with Polyak-averaged targets, a squashed Gaussian actor and a learned temperature."""

import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pendulum1D:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.s = self.rng.uniform(-1, 1, 2).astype(np.float32)
        self.t = 0
        return self.s.copy()

    def step(self, u):
        pos, vel = self.s
        vel = 0.95 * vel + 0.2 * float(u) - 0.05 * np.sin(3 * pos)
        self.s = np.array([pos + 0.2 * vel, vel], np.float32)
        self.t += 1
        return self.s.copy(), -float(self.s[0] ** 2 + 0.1 * float(u) ** 2), self.t >= 30


class Actor(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, h), nn.ReLU(), nn.Linear(h, 2))

    def forward(self, s):
        mean, log_std = self.net(s).chunk(2, -1)
        dist = torch.distributions.Normal(mean, log_std.clamp(-4, 1).exp())
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw) - torch.log(1 - action**2 + 1e-6)
        return action, log_prob.sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(3, h), nn.ReLU(), nn.Linear(h, 1))
        self.q2 = nn.Sequential(nn.Linear(3, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, s, a):
        x = torch.cat([s, a], -1)
        return self.q1(x), self.q2(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--size", type=int, default=32)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env, actor, critic = Pendulum1D(rng), Actor(args.size), Critic(args.size)
    target = copy.deepcopy(critic)
    for q in target.parameters():
        q.requires_grad = False
    log_alpha = torch.zeros(1, requires_grad=True)
    opt_actor = torch.optim.Adam(actor.parameters(), lr=3e-3)
    opt_critic = torch.optim.Adam(critic.parameters(), lr=3e-3)
    opt_alpha = torch.optim.Adam([log_alpha], lr=3e-3)
    memory, s, updates = [], env.reset(), 0
    while updates < args.steps:
        with torch.no_grad():
            a = actor(torch.from_numpy(s))[0].numpy() if len(memory) > 40 else rng.uniform(-1, 1, 1).astype(np.float32)
        s2, r, over = env.step(a[0])
        memory.append((s, a, r, s2))
        s = env.reset() if over else s2
        if len(memory) < 64:
            continue
        pick = [memory[i] for i in rng.integers(0, len(memory), 32)]
        bs, ba, br, bs2 = (torch.from_numpy(np.array(c, dtype=np.float32)) for c in zip(*pick))
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            a2, lp2 = actor(bs2)
            y = br.unsqueeze(1) + 0.97 * (torch.min(*target(bs2, a2)) - alpha * lp2)
        q1, q2 = critic(bs, ba)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        opt_critic.zero_grad()
        critic_loss.backward()
        opt_critic.step()

        critic.requires_grad_(False)
        action, lp = actor(bs)
        actor_loss = (alpha * lp - torch.min(*critic(bs, action))).mean()
        opt_actor.zero_grad()
        actor_loss.backward()
        opt_actor.step()
        critic.requires_grad_(True)

        alpha_loss = -(log_alpha * (lp.detach() - 1.0)).mean()
        opt_alpha.zero_grad()
        alpha_loss.backward()
        opt_alpha.step()

        with torch.no_grad():
            for q, t in zip(critic.parameters(), target.parameters()):
                t.mul_(0.98).add_(q, alpha=0.02)
        updates += 1
        if updates % 15 == 0:
            print(f"{updates} critic {critic_loss.item():.4f} actor {actor_loss.item():.4f} alpha {alpha.item():.3f}")


if __name__ == "__main__":
    main()
