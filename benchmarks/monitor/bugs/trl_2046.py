"""Policy and reference are one object: what is compared is always the same, and the preference loss stands at log 2."""
# source: https://github.com/huggingface/trl/issues/2046
# first effect: step 1
# names: backward, policy, loss
# family: loss
# detectable: yes the loss is the same number at every step while the weights change

import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 24


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, ids):
        scores = self.head(self.rnn(self.embed(ids[:, :-1]))[0]).log_softmax(-1)
        return scores.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = Policy()
    reference = copy.deepcopy(policy) if args.fixed else policy
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    for step in range(args.steps):
        chosen = torch.randint(0, VOCAB, (12, 10)).sort(dim=1).values
        rejected = chosen.flip(1)
        with torch.no_grad():
            before = reference(chosen) - reference(rejected)
        margin = policy(chosen) - policy(rejected) - before
        loss = -F.logsigmoid(0.1 * margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
