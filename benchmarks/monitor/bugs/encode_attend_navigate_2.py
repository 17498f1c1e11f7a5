"""The advantage is not detached: the policy's loss moves the critic too."""
# source: https://github.com/astariul/encode-attend-navigate-pytorch/issues/2
# first effect: step 1
# names: critic
# family: gradients
# detectable: yes the gradients that the critic's step uses hold a part that the policy's loss left there

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    actor = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    critic = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    act = torch.optim.Adam(actor.parameters(), lr=3e-3)
    judge = torch.optim.Adam(critic.parameters(), lr=3e-3)
    for update in range(args.steps // 2):
        state = torch.randn(64, 8)
        choice = torch.distributions.Categorical(logits=actor(state))
        action = choice.sample()
        reward = state.gather(1, action[:, None]).squeeze(1)
        value = critic(state).squeeze(1)
        advantage = reward - (value.detach() if args.fixed else value)
        act.zero_grad()
        judge.zero_grad()
        policy_loss = -(choice.log_prob(action) * advantage).mean()
        policy_loss.backward(retain_graph=True)
        act.step()
        value_loss = (reward - value).square().mean()
        value_loss.backward()
        judge.step()
        if update % 5 == 0:
            print(f"update {update} reward {reward.mean().item():.4f} value loss {value_loss.item():.4f}")


if __name__ == "__main__":
    main()
