"""The target network is refreshed from its own weights instead of the trained network's, so it stays as it began."""
# source: https://github.com/thesouther/MARL/issues/8
# first effect: step 5
# names: QNet, load_state_dict
# family: optimizer
# detectable: yes a load of weights into a module changes nothing, because they are its own

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, obs, acts):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.q = nn.Linear(48, acts)

    def forward(self, s):
        return self.q(self.body(s))


class Policy:
    def __init__(self, args):
        self.args = args
        self.eval_net = QNet(6, 3)
        self.target_net = copy.deepcopy(self.eval_net)
        for p in self.target_net.parameters():
            p.requires_grad = False
        self.optimizer = torch.optim.RMSprop(self.eval_net.parameters(), lr=1e-3)

    def learn(self, step, s, a, r, s2):
        if step > 0 and step % 5 == 0:
            source = self.eval_net if self.args.fixed else self.target_net
            self.target_net.load_state_dict(source.state_dict())
        q = self.eval_net(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            goal = r + 0.9 * self.target_net(s2).max(dim=1).values
        loss = F.smooth_l1_loss(q, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = Policy(args)
    for step in range(args.steps):
        s = torch.randn(64, 6)
        a = torch.randint(0, 3, (64,))
        r = (s[torch.arange(64), a] > 0).float()
        s2 = 0.9 * s + 0.1 * torch.randn(64, 6)
        loss = policy.learn(step, s, a, r, s2)
        if step % 10 == 9:
            print(f"step {step} td loss {loss:.4f}")


if __name__ == "__main__":
    main()
