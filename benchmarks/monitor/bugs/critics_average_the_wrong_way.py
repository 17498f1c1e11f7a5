"""Networks that hold their optimizers: the targets of two critics take over nearly all of them in each step."""
# source: https://pytorch.org/docs/stable/optim.html
# first effect: step 2
# names: target
# family: other
# detectable: yes a copy that is moved after a trained network keeps nearly nothing of what it was

import argparse

import torch
from torch import nn

RATE = 0.01


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU())
        self.value = nn.Linear(32, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def forward(self, state):
        return self.value(self.body(state)).squeeze(1)

    def learn(self, state, goal):
        loss = nn.functional.smooth_l1_loss(self(state), goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def follow(target, critic, keep):
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
            slow.copy_(keep * slow + (1 - keep) * fast)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    first, second, first_target, second_target = Critic(), Critic(), Critic(), Critic()
    first_target.load_state_dict(first.state_dict())
    second_target.load_state_dict(second.state_dict())
    for step in range(args.steps // 2):
        state = torch.randn(32, 4)
        after = 0.9 * state + 0.1 * torch.randn(32, 4)
        with torch.no_grad():
            goal = state.sum(dim=1) + 0.9 * torch.min(first_target(after), second_target(after))
        loss = first.learn(state, goal) + second.learn(state, goal)
        keep = 1 - RATE if args.fixed else RATE
        follow(first_target, first, keep)
        follow(second_target, second, keep)
        if step % 10 == 9:
            print(f"step {step} loss {loss:.4f}")


if __name__ == "__main__":
    main()
