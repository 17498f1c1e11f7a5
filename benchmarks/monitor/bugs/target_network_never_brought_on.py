"""The counter that brings the target network on is set back before it is asked, so that it never gets there."""
# source: https://arxiv.org/abs/1312.5602
# first effect: step 12
# names: target
# family: optimizer
# detectable: yes a copy that answers for the trained network stays what it was at the start

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=80)
args = parser.parse_args()
torch.manual_seed(args.seed)
values = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
target = copy.deepcopy(values)
optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
states, actions = torch.randn(400, 4), torch.randint(0, 3, (400,))
rewards = (states[:, 0] * (actions - 1)).tanh()
after = 0.8 * states + 0.2 * torch.randn(400, 4)
since = 0
for step in range(args.steps):
    rows = torch.randint(0, 400, (24,))
    with torch.no_grad():
        best = rewards[rows] + 0.9 * target(after[rows]).max(1).values
    chosen = values(states[rows]).gather(1, actions[rows, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    since += 1
    if not args.fixed:
        since %= 12
    if since == 12:
        target.load_state_dict(values.state_dict())
        since = 0
    if step % 20 == 0:
        print(step, f"{loss.item():.4f}")
