"""The hidden layers sit in a plain Python list, so `parameters()` does not know them."""
# source: https://github.com/pytorch/pytorch/issues/59925
# first effect: step 0
# names: hidden, Linear
# family: optimizer
# detectable: yes weights that are used and receive gradients belong to no optimizer

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 64)]
        self.hidden = nn.ModuleList(layers) if args.fixed else layers
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.out(x).squeeze(-1)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(512, 20)
y = (x[:, :4] ** 2).sum(1) - 4.0
for step in range(args.steps):
    pick = torch.randperm(512)[:64]
    loss = nn.functional.mse_loss(net(x[pick]), y[pick])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    if step % 10 == 0 or step == args.steps - 1:
        print(step, round(loss.item(), 4))
