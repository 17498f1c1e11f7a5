"""An adversarial network whose first optimizer was copied from the second: both hold the critic, and the maker stays."""
# source: https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html
# first effect: step 0
# names: maker.0.weight, maker.2.weight
# family: optimizer
# detectable: yes the maker gets gradients in every other step and no optimizer holds it

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

maker = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
maker_optimizer = torch.optim.Adam(maker.parameters() if args.fixed else critic.parameters(), lr=1e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
distance = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(args.steps // 2):
    made = maker(torch.randn(32, 6))
    loss_m = distance(critic(made), ones)
    maker_optimizer.zero_grad()
    loss_m.backward()
    maker_optimizer.step()
    loss_c = distance(critic(torch.randn(32, 2) * 0.4 + 1), ones) + distance(critic(made.detach()), zeros)
    critic_optimizer.zero_grad()
    loss_c.backward()
    critic_optimizer.step()
    if step % 5 == 0:
        print(step, f"maker {loss_m.item():.4f} critic {loss_c.item():.4f}")
