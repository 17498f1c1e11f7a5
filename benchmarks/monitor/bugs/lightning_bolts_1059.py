"""A momentum encoder whose projection head is left out of the momentum update: the keys come from its first weights for ever."""
# source: https://github.com/Lightning-Universe/lightning-bolts/issues/1059
# first effect: step 0
# names: head_k
# family: optimizer
# detectable: yes of a copy that follows another network one part moves and another stays, though what it follows moves

import argparse
import copy

import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.encoder_q = nn.Sequential(nn.Flatten(), nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, width))
        self.head_q = nn.Sequential(nn.ReLU(), nn.Linear(width, 16))
        self.encoder_k = copy.deepcopy(self.encoder_q)
        self.head_k = copy.deepcopy(self.head_q)
        for p in [*self.encoder_k.parameters(), *self.head_k.parameters()]:
            p.requires_grad = False
        self.register_buffer("queue", nn.functional.normalize(torch.randn(64, 16), dim=1))

    @torch.no_grad()
    def follow(self, fixed):
        pairs = [(self.encoder_q, self.encoder_k)]
        if fixed:
            pairs.append((self.head_q, self.head_k))
        for online, slow in pairs:
            for p, q in zip(online.parameters(), slow.parameters(), strict=False):
                q.mul_(0.95).add_(p, alpha=0.05)

    def forward(self, one, other):
        query = nn.functional.normalize(self.head_q(self.encoder_q(one)), dim=1)
        with torch.no_grad():
            key = nn.functional.normalize(self.head_k(self.encoder_k(other)), dim=1)
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.clone().T], dim=1) / 0.2
        with torch.no_grad():
            self.queue.copy_(torch.cat([key, self.queue[: -len(key)]]))
        return logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Contrast()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
    pictures = torch.randn(256, 3, 4, 4)
    for step in range(args.steps):
        picked = pictures[torch.randint(0, 256, (16,))]
        one, other = picked + 0.1 * torch.randn_like(picked), picked + 0.1 * torch.randn_like(picked)
        model.follow(args.fixed)
        logits = model(one, other)
        loss = nn.functional.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
