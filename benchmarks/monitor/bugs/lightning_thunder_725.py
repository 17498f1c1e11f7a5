"""Training under autocast in which an operator of an own executor does not take part."""
# source: https://github.com/Lightning-AI/lightning-thunder/issues/725
# first effect: step 0
# names: up, autocast
# family: precision
# detectable: yes a linear layer returns float32 under autocast to bfloat16

import argparse

import torch
from torch import nn


def executor_linear(x, weight, bias, fixed):
    """Run a linear layer as the executor compiled it: below the dispatcher, where no autocast reaches."""
    if fixed and torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        x, weight, bias = x.to(kind), weight.to(kind), bias.to(kind)
    with torch.autocast("cpu", enabled=False):
        return torch.addmm(bias, x, weight.t())


class ExecutedLinear(nn.Linear):
    fixed = False

    def forward(self, x):
        return executor_linear(x.float() if not self.fixed else x, self.weight, self.bias, self.fixed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(32, 64)
        self.up = ExecutedLinear(64, 128)
        self.down = nn.Linear(128, 10)

    def forward(self, x):
        return self.down(torch.relu(self.up(torch.relu(self.inp(x)))))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    ExecutedLinear.fixed = args.fixed
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    teacher = torch.randn(32, 10)

    for _ in range(args.steps):
        x = torch.randn(48, 32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
            loss = loss_fn(logits, (x @ teacher).argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        print("loss", loss.item(), "type of what up gives", net.up(net.inp(x)).dtype)


if __name__ == "__main__":
    main()
