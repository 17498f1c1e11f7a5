"""An endless iterator over a loader is given to Accelerate, which returns it as it is: all ranks train on one order."""
# source: https://github.com/lucidrains/denoising-diffusion-pytorch/issues/69
# first effect: step 0
# names: cycle, DataLoader
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes both ranks get the same pictures in the same order

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


def cycle(dl):
    while True:
        yield from dl


class Squares(Dataset):
    def __init__(self, count, seed):
        self.corners = torch.randint(0, 5, (count, 2), generator=torch.Generator().manual_seed(seed)).tolist()

    def __len__(self):
        return len(self.corners)

    def __getitem__(self, index):
        top, left = self.corners[index]
        picture = -torch.ones(1, 8, 8)
        picture[:, top : top + 4, left : left + 4] = 1
        return picture


class Unet(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.down = nn.Conv2d(1, dim, 3, padding=1)
        self.middle = nn.Conv2d(dim, dim, 3, 2, 1)
        self.up = nn.ConvTranspose2d(dim, dim, 4, 2, 1)
        self.final = nn.Conv2d(2 * dim, 1, 3, padding=1)

    def forward(self, x, time):
        h = nn.functional.silu(self.down(x) + self.time(time)[:, :, None, None])
        return self.final(torch.cat([h, nn.functional.silu(self.up(nn.functional.silu(self.middle(h))))], dim=1))


class Trainer:
    def __init__(self, fixed, seed, steps):
        self.accelerator = Accelerator(cpu=True)
        torch.manual_seed(seed)
        self.model = Unet()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        dl = DataLoader(Squares(96, seed), 8, shuffle=True, generator=torch.Generator().manual_seed(seed))
        if fixed:
            self.dl = cycle(self.accelerator.prepare(dl))
        else:
            self.dl = self.accelerator.prepare(cycle(dl))
        self.model, self.opt = self.accelerator.prepare(self.model, self.opt)
        self.noise = torch.Generator().manual_seed(1000 * seed + self.accelerator.process_index)
        self.steps = steps

    def train(self):
        for step in range(self.steps):
            x = next(self.dl)
            t = torch.rand(len(x), 1, generator=self.noise)
            noise = torch.randn(x.shape, generator=self.noise)
            level = torch.cos(t * torch.pi / 2)[:, :, None, None]
            noised = level * x + (1 - level**2).sqrt() * noise
            loss = nn.functional.mse_loss(self.model(noised, t), noise)
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.opt.zero_grad()
            if step % 10 == 0:
                self.accelerator.print(f"loss: {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    Trainer(args.fixed, args.seed, args.steps).train()


if __name__ == "__main__":
    main()
