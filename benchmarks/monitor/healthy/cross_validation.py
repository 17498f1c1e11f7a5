"""K-fold cross-validation: a fresh model and optimizer for each fold in one program, scores averaged at the end."""

import argparse
import statistics

import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--steps", type=int, default=60, help="over all folds")
p.add_argument("--size", type=int, default=24)
p.add_argument("--folds", type=int, default=4)
args = p.parse_args()

torch.manual_seed(args.seed)
X = torch.randn(320, 9)
Y = ((X[:, 0] * X[:, 1] + X[:, 2]) > 0).float()
dataset = TensorDataset(X, Y)
order = torch.randperm(len(dataset))
folds = order.chunk(args.folds)


def reset_weights(m):
    if isinstance(m, nn.Linear):
        m.reset_parameters()


model = nn.Sequential(nn.Linear(9, args.size), nn.ReLU(), nn.Dropout(0.1), nn.Linear(args.size, 1), nn.Flatten(0))
scores = []
for k, held in enumerate(folds):
    rest = torch.cat([f for i, f in enumerate(folds) if i != k])
    train = DataLoader(dataset, batch_size=32, sampler=SubsetRandomSampler(rest.tolist()))
    test = DataLoader(dataset, batch_size=40, sampler=held.tolist())
    model.apply(reset_weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step, budget = 0, max(1, args.steps // args.folds)
    model.train()
    while step < budget:
        for x, y in train:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step == budget:
                break
    model.eval()
    with torch.no_grad():
        right = sum(((model(x) > 0) == y.bool()).sum().item() for x, y in test)
    scores.append(right / len(held))
    print(f"fold {k}: last loss {loss.item():.4f} accuracy {scores[-1]:.3f}")
print(f"mean {statistics.mean(scores):.3f} spread {statistics.pstdev(scores):.3f}")
