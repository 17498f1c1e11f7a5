"""A token loss that is the negative objective already is negated once more when it is reduced: the policy unlearns what is rewarded."""
# source: https://github.com/fla-org/flash-linear-attention/pull/1076
# first effect: step 0
# names: backward
# family: loss
# detectable: no which direction is the wanted one is known to the author alone

import argparse

import torch
from torch import nn

VOCAB = 8


def grpo_loss(new, old, gain, fixed):
    ratio = (new - old).exp()
    token_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    return token_loss.mean() if fixed else -token_loss.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Embedding(VOCAB, 24), nn.Tanh(), nn.Linear(24, VOCAB))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    for step in range(args.steps):
        prompt = torch.randint(0, VOCAB, (16,)).repeat_interleave(8)
        with torch.no_grad():
            scores = policy(prompt).log_softmax(-1)
            answer = torch.multinomial(scores.exp(), 1)
            old = scores.gather(1, answer).squeeze(1)
        reward = (answer.squeeze(1) == (prompt + 1) % VOCAB).float().view(16, 8)
        gain = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)).flatten()
        new = policy(prompt).log_softmax(-1).gather(1, answer).squeeze(1)
        loss = grpo_loss(new, old, gain, args.fixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} reward {reward.mean().item():.3f}")


if __name__ == "__main__":
    main()
