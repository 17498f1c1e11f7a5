"""Curriculum: sequences grow longer and batches grow larger in stages, the rate is scaled with the batch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

STAGES = [(4, 16), (8, 24), (12, 32)]  # sequence length, batch size


class Echo(nn.Module):
    """Reads digits, says after each of them the one before it."""

    def __init__(self, hidden):
        super().__init__()
        self.emb = nn.Embedding(5, hidden)
        self.rnn = nn.LSTM(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 5)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--size", type=int, default=32)
    cfg = ap.parse_args()
    torch.manual_seed(cfg.seed)
    model = Echo(cfg.size)
    base_lr = 4e-3
    optimizer = torch.optim.Adam(model.parameters(), lr=base_lr)
    per_stage = max(1, cfg.steps // len(STAGES))
    stage = -1
    for step in range(cfg.steps):
        wanted = min(step // per_stage, len(STAGES) - 1)
        if wanted != stage:
            stage = wanted
            length, batch = STAGES[stage]
            for group in optimizer.param_groups:
                group["lr"] = base_lr * (batch / STAGES[0][1]) ** 0.5
            print(f"stage {stage}: length {length}, batch {batch}, lr {optimizer.param_groups[0]['lr']:.5f}")
        digits = torch.randint(0, 5, (batch, length))
        target = torch.cat([torch.zeros(batch, 1, dtype=torch.long), digits[:, :-1]], 1)
        loss = F.cross_entropy(model(digits).transpose(1, 2), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 15 == 0:
            print(f"  step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
