"""Matrices of the hidden layers by an orthogonalised momentum (torch.optim.Muon where it is there), the rest by AdamW."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class OrthogonalMomentum(torch.optim.Optimizer):
    """What stands in for Muon in older versions: the momentum is replaced by the nearest semi-orthogonal matrix."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                u, _, vh = torch.linalg.svd(buffer, full_matrices=False)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(u @ vh, alpha=-group["lr"])


class Net(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.hidden = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(3))
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(2 * d, vocab)

    def forward(self, pair):
        x = self.wte(pair)
        for layer in self.hidden:
            x = x + F.relu(layer(self.norm(x))).square()
        return self.head(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    vocab = 13
    net = Net(vocab, args.size)
    hidden = [p for p in net.hidden.parameters() if p.ndim == 2]
    ids = {id(p) for p in hidden}
    others = [p for p in net.parameters() if id(p) not in ids]
    muon = getattr(torch.optim, "Muon", OrthogonalMomentum)(hidden, lr=0.01, weight_decay=0.0)
    adamw = torch.optim.AdamW(others, lr=5e-3, betas=(0.9, 0.95))
    pairs = torch.cartesian_prod(torch.arange(vocab), torch.arange(vocab))
    answers = pairs.sum(1) % vocab
    for step in range(args.steps):
        pick = torch.randint(0, len(pairs), (96,))
        loss = F.cross_entropy(net(pairs[pick]), answers[pick])
        net.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in (muon, adamw):
            optimizer.step()
        if step % 12 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
