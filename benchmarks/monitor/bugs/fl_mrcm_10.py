"""Reconstruction of scans with an adversary over the sites they come from, whose term of the loss was made a plain number to save memory."""
# source: https://github.com/guopengf/FL-MRCM/issues/10
# first effect: step 1
# names: site, adversary
# family: gradients
# detectable: yes the adversary is run on features that keep their graph, and no backward pass comes through it

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Reconstructor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1))
        self.decode = nn.Sequential(nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))

    def forward(self, scan):
        features = self.encode(scan)
        return self.decode(features), features.mean((2, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    sites = torch.arange(96) % 2
    clean = F.avg_pool2d(torch.randn(96, 1, 16, 16), 3, 1, 1) * (1 + 0.5 * sites.view(-1, 1, 1, 1))
    net = Reconstructor()
    adversary = nn.Sequential(nn.Linear(12, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    for_net = torch.optim.Adam(net.parameters(), lr=2e-3)
    for_adversary = torch.optim.Adam(adversary.parameters(), lr=2e-3)

    rec_losses, adv_losses = [], []
    for _ in range(args.steps // 2):
        pick = torch.randint(96, (16,))
        full, site = clean[pick], sites[pick]
        under = full * (torch.rand_like(full) > 0.4)

        with torch.no_grad():
            _, features = net(under)
        loss_adv_d = F.cross_entropy(adversary(features), site)
        for_adversary.zero_grad()
        loss_adv_d.backward()
        for_adversary.step()

        image, features = net(under)
        loss_rec = F.l1_loss(image, full)
        loss_adv_g = -F.cross_entropy(adversary(features), site)
        if not args.fixed:
            loss_adv_g = loss_adv_g.detach().item()
        for_net.zero_grad()
        (loss_rec + 0.1 * loss_adv_g).backward()
        for_net.step()
        rec_losses.append(loss_rec.item())
        adv_losses.append(float(loss_adv_g))
    print(f"reconstruction {sum(rec_losses[-5:]) / 5:.4f}, adversary {sum(adv_losses[-5:]) / 5:.4f}")


if __name__ == "__main__":
    main()
