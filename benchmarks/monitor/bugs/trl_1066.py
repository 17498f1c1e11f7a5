"""The pass that reads old scores puts the policy into evaluation mode, and the passes that train it are made in it, too."""
# source: https://github.com/huggingface/trl/issues/1066
# first effect: step 0
# names: policy
# family: mode
# detectable: yes a model with dropout is put into evaluation mode to be read and trained without being put back

import argparse

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

VOCAB = 12


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(64, VOCAB)
        self.value = nn.Linear(64, 1)

    def forward(self, state):
        hidden = self.body(self.embed(state))
        return self.head(hidden), self.value(hidden).squeeze(-1)


def batched(policy, state, action):
    policy.eval()
    scores, value = policy(state)
    return Categorical(logits=scores).log_prob(action), value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    policy.train()
    for step in range(args.steps // 2):
        state = torch.randint(0, VOCAB, (64,))
        with torch.no_grad():
            policy.eval()
            action = Categorical(logits=policy(state)[0]).sample()
            old, _ = batched(policy, state, action)
        reward = (action == (state + 1) % VOCAB).float()
        for _ in range(2):
            if args.fixed:
                policy.train()
                scores, value = policy(state)
                new = Categorical(logits=scores).log_prob(action)
            else:
                new, value = batched(policy, state, action)
            gain = reward - value.detach()
            ratio = (new - old).exp()
            clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
            loss = -clipped.mean() + 0.5 * F.mse_loss(value, reward)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 4 == 0:
            print(f"step {step} reward {reward.mean().item():.3f}")


if __name__ == "__main__":
    main()
