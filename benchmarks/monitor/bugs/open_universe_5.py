"""Speech enhancement with two discriminators, of which one is given to the optimizer twice and the other not at all."""
# source: https://github.com/line/open-universe/issues/5
# first effect: step 0
# names: loss_mpd
# family: optimizer
# detectable: yes parameters get gradients in each step and no optimizer holds them, and others are held twice

import argparse
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")


class Period(nn.Module):
    def __init__(self, period):
        super().__init__()
        self.period = period
        self.net = nn.Sequential(nn.Conv2d(1, 8, (3, 1), (2, 1)), nn.LeakyReLU(0.1), nn.Conv2d(8, 1, (3, 1)))

    def forward(self, wave):
        return self.net(wave.view(len(wave), 1, -1, self.period))


class Resolution(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window
        self.net = nn.Sequential(nn.Conv1d(window // 2 + 1, 12, 3), nn.LeakyReLU(0.1), nn.Conv1d(12, 1, 3))

    def forward(self, wave):
        frames = wave.squeeze(1).unfold(1, self.window, self.window // 4)
        return self.net(torch.log1p(torch.fft.rfft(frames).abs()).transpose(1, 2))


class UniverseGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.enhance = nn.Sequential(nn.Conv1d(1, 16, 9, padding=4), nn.PReLU(), nn.Conv1d(16, 1, 9, padding=4))
        self.loss_mpd = nn.ModuleList([Period(2), Period(3)])
        self.loss_mrd = nn.ModuleList([Resolution(16), Resolution(24)])

    def judged(self, wave):
        return [judge(wave) for judge in (*self.loss_mpd, *self.loss_mrd)]

    def configure_optimizers(self, fixed):
        params_disc = list(self.loss_mrd.parameters()) + list((self.loss_mpd if fixed else self.loss_mrd).parameters())
        return (
            torch.optim.AdamW(params_disc, lr=2e-4, betas=(0.8, 0.99)),
            torch.optim.AdamW(self.enhance.parameters(), lr=1e-3, betas=(0.8, 0.99)),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = UniverseGAN()
    optim_disc, optim_gen = model.configure_optimizers(args.fixed)
    for step in range(args.steps // 2):
        clean = torch.sin(torch.arange(120) * (0.05 + 0.3 * torch.rand(6, 1, 1)))
        enhanced = model.enhance(clean + 0.3 * torch.randn_like(clean))

        optim_disc.zero_grad()
        real, fake = model.judged(clean), model.judged(enhanced.detach())
        loss_d = sum((1 - r).square().mean() + f.square().mean() for r, f in zip(real, fake, strict=True))
        loss_d.backward()
        optim_disc.step()

        for parameter in (*model.loss_mpd.parameters(), *model.loss_mrd.parameters()):
            parameter.requires_grad_(False)
        optim_gen.zero_grad()
        loss_g = 20 * F.l1_loss(enhanced, clean) + sum((1 - f).square().mean() for f in model.judged(enhanced))
        loss_g.backward()
        optim_gen.step()
        for parameter in (*model.loss_mpd.parameters(), *model.loss_mrd.parameters()):
            parameter.requires_grad_(True)
        if step % 5 == 4:
            print(f"step {step + 1}: d {loss_d.item():.4f}, g {loss_g.item():.4f}")


if __name__ == "__main__":
    main()
