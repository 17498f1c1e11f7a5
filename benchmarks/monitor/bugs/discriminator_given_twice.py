"""A copy-and-paste slip gives the optimizer the same discriminator twice, and the other one not at all."""
# source: https://github.com/line/open-universe/issues/5
# first effect: step 1
# names: mpd.0.weight, mpd.0.bias, mpd.2.weight, mpd.2.bias
# family: optimizer
# detectable: yes the second discriminator receives gradients and no optimizer owns it (torch also warns of the duplicates)

import argparse
import itertools

import torch
import torch.nn.functional as F
from torch import nn


def critic(kernel):
    return nn.Sequential(nn.Conv1d(1, 8, kernel, stride=2), nn.LeakyReLU(0.1), nn.Conv1d(8, 1, 3))


class UniverseLike(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.gen = nn.Sequential(nn.Conv1d(1, 16, 9, padding=4), nn.Tanh(), nn.Conv1d(16, 1, 9, padding=4))
        self.mrd, self.mpd = critic(5), critic(11)
        other = self.mpd if fixed else self.mrd
        self.opt_gen = torch.optim.AdamW(self.gen.parameters(), lr=1e-3)
        self.opt_disc = torch.optim.AdamW(list(self.mrd.parameters()) + list(other.parameters()), lr=2e-3)

    def generator_step(self, noisy, clean):
        out = self.gen(noisy)
        fool = sum((1 - d(out)).pow(2).mean() for d in (self.mrd, self.mpd))
        loss = F.l1_loss(out, clean) + 0.1 * fool
        self.opt_gen.zero_grad()
        loss.backward()
        self.opt_gen.step()
        return out.detach(), loss.item()

    def discriminator_step(self, fake, clean):
        loss = sum((1 - d(clean)).pow(2).mean() + d(fake).pow(2).mean() for d in (self.mrd, self.mpd))
        for p in itertools.chain(self.mrd.parameters(), self.mpd.parameters()):
            p.grad = None
        loss.backward()
        self.opt_disc.step()
        return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = UniverseLike(args.fixed)
    for step in range(args.steps):
        clean = torch.sin(0.3 * torch.arange(64.0) + 6.28 * torch.rand(8, 1, 1))
        fake, g = model.generator_step(clean + 0.5 * torch.randn_like(clean), clean)
        d = model.discriminator_step(fake, clean)
        if step % 4 == 0:
            print(f"step {step} gen {g:.4f} disc {d:.4f}")
