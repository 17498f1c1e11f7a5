"""A gradient penalty takes the gradient of the critic without `create_graph`: it is in the loss and moves nothing."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
# first effect: step 0
# names: grad
# family: gradients
# detectable: no gradients of inputs are also taken without a graph on purpose, for attacks and for measuring

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_m = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.0, 0.9))
for step in range(args.steps // 2):
    real = torch.randn(32, 2) + 2
    fake = maker(torch.randn(32, 4))
    mix = torch.rand(32, 1)
    between = (mix * real + (1 - mix) * fake.detach()).requires_grad_()
    slope = torch.autograd.grad(critic(between).sum(), between, create_graph=args.fixed)[0]
    penalty = (slope.norm(dim=1) - 1).pow(2).mean()
    loss_c = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty
    opt_c.zero_grad()
    loss_c.backward()
    opt_c.step()
    loss_m = -critic(fake).mean()
    opt_m.zero_grad()
    loss_m.backward()
    opt_m.step()
    if step % 5 == 0:
        print(step, f"{loss_c.item():.4f} {loss_m.item():.4f}")
