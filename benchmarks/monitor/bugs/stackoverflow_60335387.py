"""A small text classifier whose loop never clears its gradients."""
# source: https://stackoverflow.com/questions/60335387
# first effect: step 1
# names: zero_grad
# family: gradients
# detectable: yes gradients of an earlier step are still there at the next backward pass of a step that does not accumulate

import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

torch.manual_seed(args.seed)
VOCABULARY, CLASSES = 200, 4


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCABULARY, 32, mode="mean")
        self.hidden = nn.Linear(32, 32)
        self.out = nn.Linear(32, CLASSES)

    def forward(self, tokens):
        return self.out(torch.relu(self.hidden(self.embedding(tokens))))


tokens = torch.randint(0, VOCABULARY, (512, 12))
labels = (tokens % CLASSES).mode(dim=1).values

model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(args.steps):
    picked = torch.randint(0, len(tokens), (32,))
    if args.fixed:
        optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens[picked]), labels[picked])
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")

print(f"done: loss {loss.item():.4f}, gradient norm of out.weight {model.out.weight.grad.norm():.3f}")
