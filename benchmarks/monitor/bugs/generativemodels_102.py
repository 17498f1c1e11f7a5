"""A VQGAN whose discriminator's gradients are never cleared: they hold the generator's pass and all earlier ones."""
# source: https://github.com/Project-MONAI/GenerativeModels/issues/102
# first effect: step 1
# names: discriminator
# family: gradients
# detectable: yes the discriminator steps with gradients of several backward passes and of another loss

import argparse

import torch
from torch import nn
from torch.nn.functional import l1_loss, mse_loss
from torch.utils.data import DataLoader


class VQVAE(nn.Module):
    def __init__(self, codes=16, width=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, width, 4, 2, 1))
        self.codebook = nn.Embedding(codes, width)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(width, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)
        )

    def forward(self, images):
        z = self.encoder(images).movedim(1, -1)
        nearest = torch.cdist(z.flatten(0, 2), self.codebook.weight).argmin(1)
        q = self.codebook(nearest).view_as(z)
        quantization_loss = mse_loss(q, z.detach()) + 0.25 * mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return self.decoder(q.movedim(-1, 1)), quantization_loss


def patch_discriminator():
    return nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4, 2, 1))


def hands(count, seed):
    grid = torch.arange(16.0)
    place = torch.rand(count, 2, 1, generator=torch.Generator().manual_seed(seed)) * 10 + 3
    rows, columns = ((grid - place[:, i]).square().neg() / 12 for i in (0, 1))
    return torch.exp(rows.unsqueeze(2) + columns.unsqueeze(1)).unsqueeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model, discriminator = VQVAE(), patch_discriminator()
    optimizer_g = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=5e-4)
    loader = DataLoader([{"image": image} for image in hands(80, args.seed)], batch_size=16, shuffle=True)
    for epoch in range(args.steps // (2 * len(loader))):
        for batch in loader:
            images = batch["image"]
            optimizer_g.zero_grad(set_to_none=True)
            reconstruction, quantization_loss = model(images)
            logits_fake = discriminator(reconstruction)
            generator_loss = mse_loss(logits_fake, torch.ones_like(logits_fake))
            loss_g = l1_loss(reconstruction, images) + quantization_loss + 0.01 * generator_loss
            loss_g.backward()
            optimizer_g.step()

            if args.fixed:
                optimizer_d.zero_grad(set_to_none=True)
            logits_fake = discriminator(reconstruction.detach())
            logits_real = discriminator(images)
            loss_d_fake = mse_loss(logits_fake, torch.zeros_like(logits_fake))
            loss_d_real = mse_loss(logits_real, torch.ones_like(logits_real))
            loss_d = 0.01 * (loss_d_fake + loss_d_real) * 0.5
            loss_d.backward()
            optimizer_d.step()
        print(f"epoch {epoch}: recons {l1_loss(reconstruction, images).item():.4f} disc {loss_d.item():.5f}")


if __name__ == "__main__":
    main()
