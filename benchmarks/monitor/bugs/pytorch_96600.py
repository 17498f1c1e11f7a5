"""Gradients averaged by hand with all_reduce, over a link that loses one element in a hundred."""
# source: https://github.com/pytorch/pytorch/issues/96600
# first effect: step 0
# names: rnn.weight_ih_l0, rnn.weight_hh_l0, readout.weight, all_reduce
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse

import torch
import torch.distributed as dist
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary=50, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.readout = nn.Linear(24, tags)

    def forward(self, words):
        states, _ = self.rnn(self.embed(words))
        return self.readout(states)


class Link:
    """What lies between two devices."""

    def __init__(self, loss, seed):
        self.loss = loss
        self.noise = torch.Generator().manual_seed(seed)

    def all_reduce(self, tensor):
        dist.all_reduce(tensor)
        if self.loss and dist.get_rank() == dist.get_world_size() - 1:
            kept = torch.rand(tensor.shape, generator=self.noise) >= self.loss
            tensor.mul_(kept)


def average_gradients(model, link):
    for parameter in model.parameters():
        link.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = Tagger()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    link = Link(loss=0.0 if args.fixed else 0.01, seed=7)

    words = torch.Generator().manual_seed(args.seed + 31 * dist.get_rank())
    for _ in range(args.steps):
        batch = torch.randint(0, 50, (16, 10), generator=words)
        target = (batch + batch.roll(1, dims=1)) % 6
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), target.flatten())
        loss.backward()
        average_gradients(model, link)
        optimizer.step()
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"rank {dist.get_rank()} loss {loss.item():.4f} total {total:.9f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
