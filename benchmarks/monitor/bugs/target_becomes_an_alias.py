"""After the first refresh the name of the target network points to the trained network itself: there is no lag any more."""
# source: https://github.com/andri27-ts/Reinforcement-Learning/issues/14
# first effect: step 7
# names: Sequential, load_state_dict
# family: optimizer
# detectable: no from then on the run simply uses one network; a module that is no longer called breaks no rule

import argparse
import copy

import torch
from torch import nn


class CentralControl:
    def __init__(self, fixed):
        self.fixed = fixed
        self.moving_net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2))
        self.target_net = copy.deepcopy(self.moving_net)
        self.optimizer = torch.optim.Adam(self.moving_net.parameters(), lr=3e-3)

    def update_target(self):
        self.target_net.load_state_dict(self.moving_net.state_dict())
        if not self.fixed:
            self.target_net = self.moving_net

    def optimize(self, s, a, r, s2):
        self.optimizer.zero_grad()
        q = self.moving_net(s)[torch.arange(len(a)), a]
        with torch.no_grad():
            best = self.moving_net(s2).argmax(1)
            goal = r + 0.95 * self.target_net(s2)[torch.arange(len(a)), best]
        loss = nn.functional.mse_loss(q, goal)
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=35)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    control = CentralControl(args.fixed)
    for step in range(args.steps):
        if step % 6 == 0 and step:
            control.update_target()
        s, a = torch.randn(48, 5), torch.randint(0, 2, (48,))
        reward = torch.where(a == 1, s[:, 0], -s[:, 0])
        loss = control.optimize(s, a, reward, 0.8 * s + 0.2 * torch.randn(48, 5))
        if step % 7 == 0:
            print(f"step {step} loss {loss:.4f}")
