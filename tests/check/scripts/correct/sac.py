import copy
import random
from collections import deque
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Actor(nn.Module):
    def __init__(self, obs, act, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, act)
        self.log_std = nn.Linear(hidden, act)

    def sample(self, s):
        h = self.net(s)
        mean, log_std = self.mean(h), self.log_std(h).clamp(-20, 2)
        dist = torch.distributions.Normal(mean, log_std.exp())
        raw = dist.rsample()
        a = torch.tanh(raw)
        logp = (dist.log_prob(raw) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)
        return a, logp


class Q(nn.Module):
    def __init__(self, obs, act, hidden=256):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.b = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, s, a):
        x = torch.cat([s, a], -1)
        return self.a(x), self.b(x)


class Buffer:
    def __init__(self, size):
        self.data = deque(maxlen=size)

    def add(self, *row):
        self.data.append(row)

    def sample(self, n, device):
        rows = random.sample(self.data, n)
        return [torch.as_tensor(np.stack(c), dtype=torch.float32, device=device) for c in zip(*rows)]


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = gym.make("Pendulum-v1")
    obs_dim, act_dim = 3, 1
    actor, critic = Actor(obs_dim, act_dim).to(device), Q(obs_dim, act_dim).to(device)
    target = copy.deepcopy(critic)
    for p in target.parameters():
        p.requires_grad = False
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    a_opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
    c_opt = torch.optim.Adam(critic.parameters(), lr=3e-4)
    al_opt = torch.optim.Adam([log_alpha], lr=3e-4)
    buffer = Buffer(100_000)
    s, _ = env.reset(seed=0)
    for t in range(50_000):
        if t < 1000:
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = actor.sample(torch.as_tensor(s, dtype=torch.float32, device=device).unsqueeze(0))[0][0].cpu().numpy()
        s2, r, term, trunc, _ = env.step(a * 2)
        buffer.add(s, a, [r], s2, [float(term)])
        s = s2 if not (term or trunc) else env.reset()[0]
        if t < 1000:
            continue
        S, A, R, S2, D = buffer.sample(256, device)
        alpha = log_alpha.exp()
        with torch.no_grad():
            A2, logp2 = actor.sample(S2)
            q1, q2 = target(S2, A2)
            y = R + 0.99 * (1 - D) * (torch.min(q1, q2) - alpha * logp2)
        q1, q2 = critic(S, A)
        c_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
        for p in critic.parameters():
            p.requires_grad = False
        pi, logp = actor.sample(S)
        q1, q2 = critic(S, pi)
        a_loss = (alpha.detach() * logp - torch.min(q1, q2)).mean()
        a_opt.zero_grad()
        a_loss.backward()
        a_opt.step()
        for p in critic.parameters():
            p.requires_grad = True
        al_loss = -(log_alpha * (logp.detach() - act_dim)).mean()
        al_opt.zero_grad()
        al_loss.backward()
        al_opt.step()
        with torch.no_grad():
            for p, tp in zip(critic.parameters(), target.parameters()):
                tp.mul_(0.995)
                tp.add_(0.005 * p)


if __name__ == "__main__":
    main()
