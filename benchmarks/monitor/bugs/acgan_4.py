"""A discriminator with a head for classes: probabilities are given to a loss that takes their logarithms."""
# source: https://github.com/clvrai/ACGAN-PyTorch/pull/4
# first effect: step 0
# names: NLLLoss, nll_loss, softmax
# family: loss
# detectable: yes what the loss takes for logarithms of probabilities are positive numbers that sum to one

import argparse

import torch
from torch import nn

NOISE, CLASSES = 8, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(NOISE + CLASSES, 32)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 4, 1, 0, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.net(self.fc(noise)[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, logarithms):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(16, 32, 3, 2, 1), nn.LeakyReLU(0.2, True)
        )
        self.fc_dis, self.fc_aux = nn.Linear(32 * 4, 1), nn.Linear(32 * 4, CLASSES)
        self.softmax = nn.LogSoftmax(dim=1) if logarithms else nn.Softmax(dim=1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, image):
        flat = self.conv(image).flatten(1)
        return self.sigmoid(self.fc_dis(flat)).squeeze(1), self.softmax(self.fc_aux(flat))


def real_pictures(count):
    label = torch.randint(CLASSES, (count,))
    image = -torch.ones(count, 1, 8, 8)
    image[torch.arange(count), 0, 2 * label] = 1
    return (image + 0.1 * torch.randn_like(image)).clamp(-1, 1), label


def latent(label):
    return torch.cat([torch.randn(len(label), NOISE), nn.functional.one_hot(label, CLASSES).float()], 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    netG, netD = Generator(), Discriminator(args.fixed)
    dis_criterion, aux_criterion = nn.BCELoss(), nn.NLLLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    one, zero = torch.ones(16), torch.zeros(16)
    for i in range(args.steps // 2):
        netD.zero_grad()
        image, label = real_pictures(16)
        dis_output, aux_output = netD(image)
        errD_real = dis_criterion(dis_output, one) + aux_criterion(aux_output, label)
        errD_real.backward()
        wanted = torch.randint(CLASSES, (16,))
        fake = netG(latent(wanted))
        dis_output, aux_output = netD(fake.detach())
        errD_fake = dis_criterion(dis_output, zero) + aux_criterion(aux_output, wanted)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        dis_output, aux_output = netD(fake)
        errG = dis_criterion(dis_output, one) + aux_criterion(aux_output, wanted)
        errG.backward()
        optimizerG.step()
        if i % 10 == 0:
            print(f"[{i}] Loss_D: {(errD_real + errD_fake).item():.4f} Loss_G: {errG.item():.4f}")


if __name__ == "__main__":
    main()
