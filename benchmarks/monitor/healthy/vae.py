"""Variational autoencoder with an annealed KL weight; reconstruction by binary cross entropy summed over pixels."""

import argparse

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=64)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--size", type=int, default=64)
args = parser.parse_args()
torch.manual_seed(args.seed)

# pictures with one bright rectangle
g = torch.Generator().manual_seed(args.seed)
corner = torch.randint(0, 6, (512, 2), generator=g)
pictures = torch.zeros(512, 12, 12)
for k, (r, c) in enumerate(corner.tolist()):
    pictures[k, r : r + 6, c : c + 6] = 1.0
train_loader = torch.utils.data.DataLoader(pictures[:448], batch_size=args.batch_size, shuffle=True)
test_loader = torch.utils.data.DataLoader(pictures[448:], batch_size=args.batch_size, shuffle=False)


class VAE(nn.Module):
    def __init__(self, hidden, latent=8):
        super().__init__()
        self.fc1 = nn.Linear(144, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 144)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 144))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar, beta):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 144), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + beta * kld


model = VAE(args.size)
optimizer = optim.Adam(model.parameters(), lr=1e-3)
global_step = 0


def train(epoch):
    global global_step
    model.train()
    train_loss, n = 0.0, 0
    for data in train_loader:
        if global_step >= args.steps:
            break
        beta = min(1.0, global_step / 30)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar, beta)
        loss.backward()
        train_loss += loss.item()
        n += len(data)
        optimizer.step()
        global_step += 1
    print(f"====> Epoch: {epoch} Average loss: {train_loss / max(1, n):.4f}")


def test(epoch):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for data in test_loader:
            recon, mu, logvar = model(data)
            total += loss_function(recon, data, mu, logvar, 1.0).item()
    print(f"====> Test set loss: {total / len(test_loader.dataset):.4f}")


if __name__ == "__main__":
    epoch = 0
    while global_step < args.steps:
        epoch += 1
        train(epoch)
        test(epoch)
        with torch.no_grad():
            sample = model.decode(torch.randn(4, 8))
        print(f"      mean brightness of samples {sample.mean().item():.3f}")
