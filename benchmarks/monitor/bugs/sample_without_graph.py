"""A variational autoencoder that draws its code with sample(): the reconstruction never reaches the encoder."""
# source: https://docs.pytorch.org/docs/stable/distributions.html#pathwise-derivative
# first effect: step 0
# names: sample, rsample
# family: gradients
# detectable: yes all that comes to the encoder's means is a pull towards zero

import argparse

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence


class Autoencoder(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.encoder = nn.Sequential(nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 30))

    def forward(self, given):
        mean, log_deviation = self.encoder(given).chunk(2, dim=-1)
        code = Normal(mean, log_deviation.exp())
        return self.decoder(code.rsample() if self.fixed else code.sample()), code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = torch.randn(400, 4) @ torch.randn(4, 30) * 0.5
    model = Autoencoder(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        given = data[torch.randint(0, len(data), (40,))]
        answer, code = model(given)
        rebuilt = ((answer - given) ** 2).sum(1).mean()
        divergence = kl_divergence(code, Normal(0.0, 1.0)).sum(1).mean()
        loss = rebuilt + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} rebuilt {rebuilt.item():.4f} divergence {divergence.item():.4f}")


if __name__ == "__main__":
    main()
