"""With accumulation, gradients are cleared at every micro-batch, so each step only uses the last one."""
# source: https://github.com/gaozhihan/PreDiff/issues/32
# first effect: step 0
# names: zero_grad
# family: gradients
# detectable: yes gradients of backward passes are thrown away before any step used them

import argparse

import torch
import torch.nn as nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(2, 16, 4, stride=4)
        self.moments = nn.Conv1d(16, 8, 1)
        self.up = nn.ConvTranspose1d(4, 2, 4, stride=4)

    def forward(self, x):
        mean, logvar = self.moments(torch.relu(self.down(x))).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        kl = 0.5 * (mean.pow(2) + logvar.exp() - 1 - logvar).mean()
        return self.up(z), kl


def main(args):
    torch.manual_seed(args.seed)
    vae = VAE()
    optimizer = torch.optim.AdamW(vae.parameters(), lr=3e-3)
    done, micro, window = 0, 0, []
    while done < args.steps:
        t = torch.arange(32.0) * 0.3 + 6.28 * torch.rand(8, 1)
        x = torch.stack([t.sin(), t.cos()], dim=1)
        recon, kl = vae(x)
        loss = (nn.functional.mse_loss(recon, x) + 1e-3 * kl) / args.accumulate
        loss.backward()
        window.append(loss.item())
        micro += 1
        if micro % args.accumulate == 0:
            optimizer.step()
            if args.fixed:
                optimizer.zero_grad()
            done += 1
            if done % 5 == 0:
                print(f"update {done} loss {sum(window):.4f}")
            window.clear()
        if not args.fixed:
            optimizer.zero_grad()


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--fixed", action="store_true")
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--steps", type=int, default=25)
    cli.add_argument("--accumulate", type=int, default=3)
    main(cli.parse_args())
