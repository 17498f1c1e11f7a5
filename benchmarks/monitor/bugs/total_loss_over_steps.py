"""The running sum that is printed is kept as a tensor, and the backward pass begins at it: each step follows all steps before."""
# source: https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
# first effect: step 1
# names: loss, retain_graph
# family: gradients
# detectable: yes each backward pass goes through the losses of all earlier iterations, whose steps were made long ago

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

features = torch.randn(256, 12)
truth = features @ torch.randn(12, 3) + 0.1 * torch.randn(256, 3)
probe = nn.Linear(12, 3)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.01)
total = 0.0
for step in range(args.steps):
    rows = torch.randint(0, 256, (32,))
    loss = nn.functional.mse_loss(probe(features[rows]), truth[rows])
    optimizer.zero_grad()
    if args.fixed:
        total += loss.item()
        loss.backward()
    else:
        total = total + loss
        total.backward(retain_graph=True)
    optimizer.step()
    if step % 10 == 9:
        print(step, f"mean loss {float(total) / (step + 1):.4f}")
