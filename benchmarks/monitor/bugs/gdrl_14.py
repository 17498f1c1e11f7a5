"""An actor and a critic whose targets are to begin as copies; the rate that is passed for the first copy is not read."""
# source: https://github.com/mimoralea/gdrl/pull/14
# first effect: step 0
# names: target_value_model, target_policy_model
# family: init
# detectable: yes networks that follow others by a small share are other networks from the beginning

import argparse

import torch
from torch import nn
from torch.nn import functional as F


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, outputs))


class Agent:
    def __init__(self, fixed, tau=0.01):
        self.online_value_model, self.target_value_model = network(5, 1), network(5, 1)
        self.online_policy_model, self.target_policy_model = network(4, 1), network(4, 1)
        self.value_optimizer = torch.optim.Adam(self.online_value_model.parameters(), lr=1e-3)
        self.policy_optimizer = torch.optim.Adam(self.online_policy_model.parameters(), lr=3e-4)
        self.fixed, self.tau = fixed, tau
        self.update_networks(tau=1.0)

    def update_networks(self, tau=None):
        tau = self.tau if tau is None or not self.fixed else tau
        for target, online in (
            (self.target_value_model, self.online_value_model),
            (self.target_policy_model, self.online_policy_model),
        ):
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.data.copy_((1.0 - tau) * old.data + tau * new.data)

    def optimize_model(self, states, actions, rewards, next_states):
        best = torch.tanh(self.target_policy_model(next_states))
        target = rewards + 0.9 * self.target_value_model(torch.cat([next_states, best], 1)).detach()
        value_loss = F.mse_loss(self.online_value_model(torch.cat([states, actions], 1)), target)
        self.value_optimizer.zero_grad()
        value_loss.backward()
        nn.utils.clip_grad_norm_(self.online_value_model.parameters(), 10.0)
        self.value_optimizer.step()

        chosen = torch.tanh(self.online_policy_model(states))
        policy_loss = -self.online_value_model(torch.cat([states, chosen], 1)).mean()
        self.policy_optimizer.zero_grad()
        policy_loss.backward()
        self.policy_optimizer.step()
        return value_loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    agent = Agent(args.fixed)
    for step in range(args.steps // 2):
        states, actions = torch.randn(32, 4), torch.rand(32, 1) * 2 - 1
        next_states = 0.8 * states + 0.4 * actions + 0.1 * torch.randn(32, 4)
        loss = agent.optimize_model(states, actions, -next_states.square().mean(1, keepdim=True), next_states)
        agent.update_networks()
        if step % 20 == 19:
            print(f"step {step + 1}: value loss {loss:.4f}")


if __name__ == "__main__":
    main()
