"""The official training split is drawn from by position, and the positions are taken for sample numbers: some belong to the test split."""
# source: https://github.com/sarpaykent/GotenNet/issues/10
# first effect: step 0
# names: loader0, loader1
# family: data
# detectable: yes some of the samples that are evaluated have been trained on, and the others have not

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    atoms = torch.randn(200, 24)
    energy = torch.tanh(atoms @ torch.randn(24, 1))
    molecules = TensorDataset(atoms, energy)
    official = torch.randperm(200)
    official_train, official_test = official[:160], official[160:]
    drawn = torch.randperm(160)[:128]
    train = official_train[drawn] if args.fixed else drawn
    loader = DataLoader(Subset(molecules, train.tolist()), batch_size=16, shuffle=True)
    test_loader = DataLoader(Subset(molecules, official_test.tolist()), batch_size=20)
    model = nn.Sequential(nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(args.steps // 8):
        model.eval()
        with torch.no_grad():
            error = sum((model(x) - y).abs().sum().item() for x, y in test_loader) / len(official_test)
        model.train()
        for x, y in loader:
            loss = nn.functional.l1_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f} test before {error:.4f}")


if __name__ == "__main__":
    main()
