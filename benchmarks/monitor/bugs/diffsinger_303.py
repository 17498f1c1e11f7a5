"""A singing model's durations are rounded up before their loss, and rounding has no slope."""
# source: https://github.com/openvpi/DiffSinger/pull/303
# first effect: step 0
# names: duration
# family: gradients
# detectable: yes the gradients of one part are zero in every step

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.phones = nn.Embedding(20, 16)
        self.body = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.pitch = nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))
        self.duration = nn.Sequential(nn.Conv1d(48, 24, 3, padding=1), nn.ReLU(), nn.Conv1d(24, 1, 1))

    def forward(self, phones):
        hidden = self.body(self.phones(phones))[0]
        return self.pitch(hidden).squeeze(-1), self.duration(hidden.transpose(1, 2)).squeeze(1)


class SyllableDurationLoss(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed

    def forward(self, log_duration, duration):
        frames = F.softplus(log_duration) * 4
        if not self.fixed:
            frames = torch.ceil(frames)
        return F.mse_loss(torch.log1p(frames), torch.log1p(duration))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model, duration_loss = Acoustic(), SyllableDurationLoss(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for step in range(args.steps):
        phones = torch.randint(20, (12, 9))
        pitch, log_duration = model(phones)
        losses = {
            "pitch": F.mse_loss(pitch, torch.cos(phones.float())),
            "duration": duration_loss(log_duration, 1.0 + phones % 5),
        }
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 9:
            print(f"step {step + 1}: " + ", ".join(f"{name} {value.item():.4f}" for name, value in losses.items()))


if __name__ == "__main__":
    main()
