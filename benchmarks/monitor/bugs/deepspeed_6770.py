"""An engine is given a model that was cast after its optimizer had taken the parameters of another copy."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/6770
# first effect: step 0
# names: decoder.weight, encoder.weight_ih_l0
# family: optimizer
# detectable: yes parameters that receive gradients are in no optimizer and never change

import argparse

import torch
from torch import nn


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(4, 24, batch_first=True)
        self.decoder = nn.Linear(24, 4)

    def forward(self, x):
        return self.decoder(self.encoder(x)[0])


def initialize(model, optimizer, kind):
    """Return the engine's own copy of the model in the engine's type."""
    own = Sequence().to(kind)
    own.load_state_dict(model.state_dict())
    return own, optimizer


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=25)
args = parser.parse_args()

torch.manual_seed(args.seed)
model = Sequence()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
engine, optimizer = initialize(model, optimizer, torch.float64)
if args.fixed:
    optimizer = torch.optim.AdamW(engine.parameters(), lr=1e-2, weight_decay=0.0)
phase = torch.rand(16, 1, 1, dtype=torch.float64) * 6
time = torch.arange(21, dtype=torch.float64).view(1, -1, 1) / 3
wave = torch.cat([torch.sin(time * k + phase) for k in (1, 2, 3, 4)], dim=2)
for step in range(args.steps):
    loss = (engine(wave[:, :-1]) - wave[:, 1:]).square().mean()
    engine.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 0:
        print(f"step {step}: {loss.item():.5f}")
print(f"loss {loss.item():.5f}")
