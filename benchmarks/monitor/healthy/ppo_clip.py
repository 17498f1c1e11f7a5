"""Proximal policy optimisation: a vectorised toy control task, generalised advantages, several epochs over one rollout."""

import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.normal import Normal


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class PointMass:
    """Push points to the origin; observation is position and velocity."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 1)).astype(np.float32)
        self.vel = np.zeros((self.n, 1), np.float32)
        self.age = np.zeros(self.n, np.int64)
        return np.hstack([self.pos, self.vel])

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * np.clip(action, -1, 1)
        self.pos = self.pos + self.vel
        self.age += 1
        reward = -np.abs(self.pos[:, 0])
        done = self.age >= 24
        if done.any():
            self.pos[done] = self.rng.uniform(-1, 1, (int(done.sum()), 1)).astype(np.float32)
            self.vel[done] = 0
            self.age[done] = 0
        return np.hstack([self.pos, self.vel]), reward.astype(np.float32), done


class Agent(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(2, hidden)), nn.Tanh(), layer_init(nn.Linear(hidden, 1), std=1.0)
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(2, hidden)), nn.Tanh(), layer_init(nn.Linear(hidden, 1), std=0.01)
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, 1))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=64, help="optimizer steps")
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    num_envs, num_steps, update_epochs, num_minibatches = 8, 16, 4, 4
    gamma, lam, clip_coef, ent_coef, vf_coef = 0.99, 0.95, 0.2, 0.01, 0.5

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    envs = PointMass(num_envs, rng)
    agent = Agent(args.size)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    num_updates = max(1, args.steps // (update_epochs * num_minibatches))

    obs = torch.zeros(num_steps, num_envs, 2)
    actions = torch.zeros(num_steps, num_envs, 1)
    logprobs, rewards, dones, values = (torch.zeros(num_steps, num_envs) for _ in range(4))
    next_obs = torch.from_numpy(envs.reset())
    next_done = torch.zeros(num_envs)

    for update in range(1, num_updates + 1):
        optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * 2.5e-3
        for t in range(num_steps):
            obs[t], dones[t] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[t], actions[t], logprobs[t] = value.flatten(), action, logprob
            o, r, d = envs.step(action.numpy())
            rewards[t] = torch.from_numpy(r)
            next_obs, next_done = torch.from_numpy(o), torch.from_numpy(d.astype(np.float32))

        with torch.no_grad():
            next_value = agent.get_value(next_obs).flatten()
            advantages, last = torch.zeros_like(rewards), torch.zeros(num_envs)
            for t in reversed(range(num_steps)):
                alive = 1.0 - (next_done if t == num_steps - 1 else dones[t + 1])
                following = next_value if t == num_steps - 1 else values[t + 1]
                delta = rewards[t] + gamma * following * alive - values[t]
                advantages[t] = last = delta + gamma * lam * alive * last
            returns = advantages + values

        b_obs, b_actions = obs.reshape(-1, 2), actions.reshape(-1, 1)
        b_logprobs, b_adv, b_ret = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
        inds = np.arange(num_envs * num_steps)
        for _ in range(update_epochs):
            rng.shuffle(inds)
            for mb in np.array_split(inds, num_minibatches):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
                ratio = (newlogprob - b_logprobs[mb]).exp()
                adv = b_adv[mb]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - clip_coef, 1 + clip_coef)).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - b_ret[mb]) ** 2).mean()
                loss = pg_loss - ent_coef * entropy.mean() + vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"update {update}/{num_updates} loss {loss.item():.4f} return {rewards.sum(0).mean().item():.3f}")
