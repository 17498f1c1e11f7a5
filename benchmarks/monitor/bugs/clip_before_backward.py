"""The clip stands in `training_step`, which runs before the backward pass: there is nothing to clip yet."""
# source: https://github.com/simchowitzlabpublic/nano-world-model/pull/22
# first effect: step 0
# names: clip_grad_norm_
# family: clipping
# detectable: yes clipping happens when no parameter has a gradient

import argparse

import torch
from torch import nn


class WorldModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.dynamics = nn.LSTM(6, 32, batch_first=True)
        self.readout = nn.Linear(32, 6)

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.parameters(), 0.25)

    def training_step(self, frames):
        hidden, _ = self.dynamics(frames[:, :-1])
        loss = (self.readout(hidden) - frames[:, 1:]).pow(2).sum(-1).mean()
        if not self.args.fixed:
            self.clip()
        return loss

    def configure_gradient_clipping(self):
        if self.args.fixed:
            self.clip()


def fit(model, optimizer, batches):
    for index, frames in enumerate(batches):
        optimizer.zero_grad()
        loss = model.training_step(frames)
        loss.backward()
        model.configure_gradient_clipping()
        optimizer.step()
        if index % 6 == 0:
            print(f"batch {index} loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    world = WorldModel(arguments)
    sgd = torch.optim.SGD(world.parameters(), lr=0.1, momentum=0.9)
    time = torch.arange(12.0)[None, :, None]
    fit(world, sgd, [torch.cos(0.5 * time + 6.28 * torch.rand(16, 1, 6)) for _ in range(arguments.steps)])
