"""A small classifier is passed, its gradients are cleared and its optimizer stepped, and the loss is never passed back."""
# source: https://docs.pytorch.org/tutorials/beginner/basics/optimization_tutorial.html
# first effect: step 0
# names: backward, body.0.weight, model.body.0.weight
# family: gradients
# detectable: yes an optimizer steps again and again on parameters that have no gradient, and no backward pass is ever made

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(24, 4)

    def forward(self, features):
        return self.head(self.body(features))


features = torch.randn(320, 12)
labels = (features @ torch.randn(12, 4)).argmax(1)
loader = DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
step = 0
while step < args.steps:
    for batch, answers in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), answers)
        if args.fixed:
            loss.backward()
        optimizer.step()
        step += 1
    print(step, f"loss {loss.item():.4f}")
