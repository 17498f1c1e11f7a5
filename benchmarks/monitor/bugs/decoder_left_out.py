"""The shared autoencoder's optimizer was only given the parameters of the encoder."""
# source: https://github.com/zdebruine/MMVAE/issues/39
# first effect: step 0
# names: decoder.0.weight, decoder.0.bias, decoder.2.weight, decoder.2.bias
# family: optimizer
# detectable: yes the decoder receives gradients and no optimizer owns it

import argparse

import torch
from torch import nn


class SharedVAE(nn.Module):
    def __init__(self, genes=60, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(genes, 48), nn.ReLU(), nn.Linear(48, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, genes))

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, dim=-1)
        z = torch.distributions.Normal(mean, (0.5 * logvar).exp())
        kl = torch.distributions.kl_divergence(z, torch.distributions.Normal(0.0, 1.0)).sum(-1).mean()
        return self.decoder(z.rsample()), kl


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    vae = SharedVAE()
    owned = vae if args.fixed else vae.encoder
    shared_opt = torch.optim.Adam(owned.parameters(), lr=5e-3)
    programs = torch.rand(6, 60)
    for step in range(args.steps):
        cells = torch.rand(64, 6) @ programs + 0.05 * torch.randn(64, 60)
        recon, kl = vae(cells)
        loss = nn.functional.mse_loss(recon, cells, reduction="sum") / 64 + 0.1 * kl
        vae.zero_grad()
        loss.backward()
        shared_opt.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.3f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
