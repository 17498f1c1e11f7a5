"""When the body is thawed an optimizer is made over the whole network, and the schedule goes on to steer that of the head."""
# source: https://arxiv.org/abs/1801.06146
# first effect: step 12
# names: StepLR
# family: schedule
# detectable: yes the schedule sets the rate of an optimizer that does not step any more

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=36)
args = parser.parse_args()
torch.manual_seed(args.seed)
body, head = nn.Sequential(nn.Linear(10, 24), nn.ReLU()), nn.Linear(24, 3)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.2, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
for step in range(args.steps):
    if step == args.steps // 3:
        body.requires_grad_(True)
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
        if args.fixed:
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
    y = torch.randint(0, 3, (32,))
    x = torch.randn(32, 10)
    x[torch.arange(32), y] += 1.5
    loss = nn.functional.cross_entropy(head(body(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 6 == 0:
        print(step, f"{loss.item():.4f}", optimizer.param_groups[0]["lr"])
