"""The momentum update and the queue live in `forward`, and so validation moves the key encoder and fills the queue, too."""
# source: https://github.com/Lightning-Universe/lightning-bolts/pull/631
# first effect: step 8
# names: encoder_k, queue
# family: mode
# detectable: yes weights and a buffer change in an evaluation that takes no gradients

import argparse
import copy

import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.encoder_q = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 16))
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", nn.functional.normalize(torch.randn(96, 16), dim=1))

    @torch.no_grad()
    def follow(self):
        for p, q in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=False):
            q.mul_(0.9).add_(p, alpha=0.1)

    def forward(self, one, other):
        query = nn.functional.normalize(self.encoder_q(one), dim=1)
        with torch.no_grad():
            if self.training or not self.fixed:
                self.follow()
            key = nn.functional.normalize(self.encoder_k(other), dim=1)
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.clone().T], dim=1) / 0.2
        if self.training or not self.fixed:
            with torch.no_grad():
                self.queue.copy_(torch.cat([key, self.queue[: -len(key)]]))
        return logits


def views(data):
    return data + 0.1 * torch.randn_like(data), data + 0.1 * torch.randn_like(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Contrast(args.fixed)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    train, held = torch.randn(256, 20), torch.randn(64, 20)
    target = torch.zeros(16, dtype=torch.long)
    for step in range(args.steps):
        model.train()
        loss = nn.functional.cross_entropy(model(*views(train[torch.randint(0, 256, (16,))])), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            model.eval()
            with torch.no_grad():
                losses = [nn.functional.cross_entropy(model(*views(part)), target) for part in held.split(16)]
            print(f"step {step} loss {loss.item():.4f} held out {torch.stack(losses).mean().item():.4f}")


if __name__ == "__main__":
    main()
