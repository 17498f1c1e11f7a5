"""A recurrent autoencoder of poses whose schedule, when it is switched off, multiplies the rate with nothing."""
# source: https://github.com/LINCellularNeuroscience/VAME/issues/26
# first effect: step 24
# names: StepLR, lr
# family: schedule
# detectable: yes the rate is zero from an epoch on, and the steps change nothing

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    def __init__(self, seed, window):
        generator = torch.Generator().manual_seed(seed)
        phase = torch.rand(6, 1, generator=generator) * 6.28
        self.signal = torch.sin(torch.arange(400) / 7 + phase) + 0.1 * torch.randn(6, 400, generator=generator)
        self.window = window

    def __len__(self):
        return 128

    def __getitem__(self, index):
        start = torch.randint(400 - self.window, (1,)).item()
        return self.signal[:, start : start + self.window].T


class RnnVae(nn.Module):
    def __init__(self, features, hidden, latent):
        super().__init__()
        self.encoder = nn.GRU(features, hidden, batch_first=True, bidirectional=True)
        self.mean, self.logvar = nn.Linear(2 * hidden, latent), nn.Linear(2 * hidden, latent)
        self.decoder = nn.GRU(latent, hidden, batch_first=True)
        self.out = nn.Linear(hidden, features)

    def forward(self, x):
        last = self.encoder(x)[1].transpose(0, 1).flatten(1)
        mean, logvar = self.mean(last), self.logvar(last)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar) if self.training else mean
        return self.out(self.decoder(z.unsqueeze(1).expand(-1, x.shape[1], -1))[0]), mean, logvar


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--scheduler", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = RnnVae(6, 20, 5)
    loader = DataLoader(Sequences(args.seed, 20), 16, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, amsgrad=True)
    if args.scheduler:
        scheduler = StepLR(optimizer, step_size=3, gamma=0.2)
    else:
        scheduler = StepLR(optimizer, step_size=3, gamma=1 if args.fixed else 0)
    for epoch in range(args.steps // len(loader)):
        model.train()
        total = 0.0
        for batch in loader:
            rebuilt, mean, logvar = model(batch)
            divergence = -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1).mean()
            loss = (rebuilt - batch).square().mean() + 1e-3 * divergence
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
