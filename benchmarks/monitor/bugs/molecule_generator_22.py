"""A variational autoencoder of molecules, whose transformer layers take the batch for the sequence; batches are cut by hand."""
# source: https://github.com/DaoyuanLi2816/Molecule-Generator/pull/22
# first effect: step 0
# names: model.encoder
# family: data
# detectable: yes what a sample gets depends on the samples beside it

import argparse

import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, fixed, words=25, width=32, latent=16, length=18):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=fixed)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.both = nn.Linear(width, 2 * latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, length * words))
        self.shape = (length, words)

    def forward(self, tokens):
        seen = self.encoder(self.embedding(tokens) + self.positions).mean(1)
        mean, log_variance = self.both(seen).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code).view(len(tokens), *self.shape), mean, log_variance


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = torch.randint(0, 25, (256, 18))
    model = Autoencoder(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        tokens = data[torch.randint(0, len(data), (32,))]
        scores, mean, log_variance = model(tokens)
        rebuilt = nn.functional.cross_entropy(scores.transpose(1, 2), tokens)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
        loss = rebuilt + 0.05 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
