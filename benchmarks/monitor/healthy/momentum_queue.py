"""MoCo: a queue of keys in a buffer, a key encoder that follows by momentum, shuffled keys, cross entropy over logits."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class MoCo(nn.Module):
    def __init__(self, build, dim, queue=128, m=0.95, temperature=0.2):
        super().__init__()
        self.m, self.T = m, temperature
        self.encoder_q, self.encoder_k = build(), build()
        self.encoder_k.load_state_dict(self.encoder_q.state_dict())
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.copy_(k * self.m + q * (1 - self.m))

    @torch.no_grad()
    def enqueue(self, keys):
        start = int(self.ptr)
        self.queue[:, start : start + len(keys)] = keys.T
        self.ptr[0] = (start + len(keys)) % self.queue.shape[1]

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.clone()
        self.enqueue(k)
        return torch.cat([positive, negative], 1) / self.T


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = MoCo(lambda: nn.Sequential(nn.Linear(16, args.size), nn.ReLU(), nn.Linear(args.size, 8)), 8)
    optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    pool = torch.randn(200, 16)
    for step in range(args.steps):
        x = pool[torch.randint(0, 200, (32,))]
        logits = model(x + 0.2 * torch.randn_like(x), x + 0.2 * torch.randn_like(x))
        loss = F.cross_entropy(logits, torch.zeros(32, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 12 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
