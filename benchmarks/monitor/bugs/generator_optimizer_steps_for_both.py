"""After the discriminator's backward pass the generator's optimizer steps again: the discriminator is never trained."""
# source: https://github.com/Lornatang/ESRGAN-PyTorch/issues/39
# first effect: step 1
# names: 0.weight, 3.weight, Adam
# family: optimizer
# detectable: yes an optimizer owns parameters that receive gradients and never steps

import argparse

import torch
from torch import nn, optim


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    g_model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.PReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)
    )
    d_model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(8 * 49, 1))
    g_optimizer = optim.Adam(g_model.parameters(), lr=2e-3)
    d_optimizer = optim.Adam(d_model.parameters(), lr=2e-3)
    adversarial, content = nn.BCEWithLogitsLoss(), nn.L1Loss()
    real_label, fake_label = torch.ones(12, 1), torch.zeros(12, 1)
    for batch in range(args.steps):
        coarse = torch.rand(12, 1, 4, 4)
        gt = nn.functional.interpolate(coarse, size=16, mode="bicubic")
        lr = nn.functional.avg_pool2d(gt, 2)

        d_model.requires_grad_(False)
        g_model.zero_grad(set_to_none=True)
        sr = g_model(lr)
        g_loss = content(sr, gt) + 5e-3 * adversarial(d_model(sr), real_label)
        g_loss.backward()
        g_optimizer.step()

        d_model.requires_grad_(True)
        d_model.zero_grad(set_to_none=True)
        d_loss = adversarial(d_model(gt), real_label) + adversarial(d_model(sr.detach()), fake_label)
        d_loss.backward()
        (d_optimizer if args.fixed else g_optimizer).step()
        if batch % 4 == 0:
            print(f"batch {batch} G {g_loss.item():.4f} D {d_loss.item():.4f}")


if __name__ == "__main__":
    main()
