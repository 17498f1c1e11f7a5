"""An autoencoder ends in a sigmoid while its data is normalised to minus one and one: half of it is out of reach."""
# source: https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html
# first effect: step 0
# names: mse_loss, MSELoss, Sigmoid
# family: loss
# detectable: yes targets are below zero, where what comes out of a sigmoid can never be

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader


class AutoEncoder(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(36, 20), nn.ReLU(), nn.Linear(20, 6))
        self.decode = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 36), last)

    def forward(self, x):
        return self.decode(self.encode(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    basis = torch.rand(4, 36)
    images = (torch.rand(320, 4) @ basis / basis.sum(0)).clamp(0, 1)
    images = (images - 0.5) / 0.5
    model = AutoEncoder(nn.Tanh() if args.fixed else nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.MSELoss()
    for epoch in range(args.steps // 10):
        for batch in DataLoader(images, batch_size=32, shuffle=True):
            loss = criterion(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
