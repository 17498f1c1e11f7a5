"""The loader that skips the batches already seen is kept after the resumed epoch: no later epoch sees its first batches either."""
# source: https://github.com/huggingface/accelerate/issues/1451
# first effect: step 12
# names: loader
# family: data
# detectable: yes epochs of the same loader end before all of its data set was given, always by as many batches

import argparse
import io

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

DONE = 5


class Skipping(BatchSampler):
    """The batches of another sampler without the first ones."""

    def __init__(self, inner, skipped):
        self.inner, self.skipped = inner, skipped

    def __iter__(self):
        for number, batch in enumerate(self.inner):
            if number >= self.skipped:
                yield batch

    def __len__(self):
        return len(self.inner) - self.skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(96, 6)
    data = TensorDataset(x, x.sum(1, keepdim=True).sin())
    inner = BatchSampler(RandomSampler(data), 8, drop_last=False)
    loader = DataLoader(data, batch_sampler=inner)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def train(batches, at_most):
        for number, (inputs, target) in enumerate(batches):
            if number == at_most:
                break
            loss = F.mse_loss(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"loss {loss.item():.4f}, batches {number + 1}")

    train(loader, DONE)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    resumed = DataLoader(data, batch_sampler=Skipping(inner, DONE))
    for epoch in range(max(1, args.steps // 12)):
        if epoch and args.fixed:
            resumed = loader
        train(resumed, None)


if __name__ == "__main__":
    main()
