"""The losses of several discriminators are overwritten in the loop instead of added up: only the last one is trained."""
# source: https://github.com/coqui-ai/TTS/issues/3153
# first effect: step 0
# names: judges.0, judges.1
# family: loss
# detectable: yes discriminators that take part in each pass and are held by the optimizer never get a gradient

import argparse

import torch
from torch import nn


class Judges(nn.Module):
    """Three discriminators that each hear the sound at another rate."""

    def __init__(self):
        super().__init__()
        self.judges = nn.ModuleList(
            nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.LeakyReLU(0.2), nn.Conv1d(8, 1, 3, padding=1))
            for _ in range(3)
        )

    def forward(self, sound):
        scores = []
        for judge in self.judges:
            scores.append(judge(sound))
            sound = nn.functional.avg_pool1d(sound, 2)
        return scores


def judged(real, fake, fixed):
    total = torch.zeros(())
    for one, other in zip(real, fake, strict=True):
        loss = ((one - 1) ** 2).mean() + (other**2).mean()
        total = total + loss if fixed else loss
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    vocoder = nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 1, 5, padding=2), nn.Tanh())
    judges = Judges()
    g_optimizer = torch.optim.Adam(vocoder.parameters(), lr=1e-3, betas=(0.5, 0.9))
    d_optimizer = torch.optim.Adam(judges.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for step in range(args.steps // 2):
        mel = torch.randn(8, 4, 32)
        sound = torch.sin(mel.sum(1, keepdim=True))
        made = vocoder(mel)
        d_loss = judged(judges(sound), judges(made.detach()), args.fixed)
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        fooled = sum(((score - 1) ** 2).mean() for score in judges(made))
        g_loss = fooled + 4 * nn.functional.l1_loss(made, sound)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        if step % 4 == 0:
            print(f"step {step} generator {g_loss.item():.4f} discriminators {d_loss.item():.4f}")


if __name__ == "__main__":
    main()
