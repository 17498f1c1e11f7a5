"""The copy of the policy's scores is made from detached ones: the balance is learnt by the one free constant alone."""
# source: https://github.com/alexhernandezgarcia/gflownet/pull/251
# first effect: step 0
# names: policy
# family: gradients
# detectable: yes the policy takes part in the passes that train and never gets a gradient

import argparse

import torch
from torch import nn

LENGTH, LETTERS = 5, 4


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(LENGTH * (LETTERS + 1), 48), nn.ReLU(), nn.Linear(48, LETTERS))
        self.log_z = nn.Parameter(torch.zeros(()))

    def forward(self, words, step):
        seen = words.clone()
        seen[:, step:] = LETTERS
        return self.policy(nn.functional.one_hot(seen, LETTERS + 1).float().flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    sampler = Sampler()
    optimizer = torch.optim.Adam(
        [{"params": sampler.policy.parameters(), "lr": 5e-3}, {"params": [sampler.log_z], "lr": 5e-2}]
    )
    for step in range(args.steps):
        words = torch.randint(0, LETTERS, (32, LENGTH))
        log_reward = (words == 0).float().sum(1)
        log_forward = 0.0
        for place in range(LENGTH):
            outputs = sampler(words, place)
            scores = outputs.clone() if args.fixed else outputs.clone().detach()
            log_forward = log_forward + scores.log_softmax(-1).gather(1, words[:, place : place + 1]).squeeze(1)
        loss = (sampler.log_z + log_forward - log_reward).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
