"""The target networks of an actor and critic are made with random weights of their own and never set to those of the critics."""
# source: https://github.com/ray-project/ray/pull/45614
# first effect: step 1
# names: target
# family: init
# detectable: yes what is averaged from another network is first used with weights that have nothing in common with it

import argparse

import torch
from torch import nn


def critic():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    online = critic()
    target = critic()
    if args.fixed:
        target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    actor = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2), nn.Tanh())
    a_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    c_optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    for step in range(args.steps // 2):
        state, action, after = torch.randn(32, 4), torch.rand(32, 2) * 2 - 1, torch.randn(32, 4)
        policy_loss = -online(torch.cat([state, actor(state)], 1)).mean()
        a_optimizer.zero_grad()
        policy_loss.backward()
        a_optimizer.step()

        with torch.no_grad():
            goal = state.sum(1, keepdim=True) + 0.9 * target(torch.cat([after, actor(after)], 1))
        loss = nn.functional.mse_loss(online(torch.cat([state, action], 1)), goal)
        c_optimizer.zero_grad()
        loss.backward()
        c_optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.005)
        if step % 4 == 0:
            print(f"step {step} critic {loss.item():.4f} actor {policy_loss.item():.4f}")


if __name__ == "__main__":
    main()
