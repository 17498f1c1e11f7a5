"""Each rank updates half of the weights and gathers the other half, over a link that loses one element in a hundred."""
# source: https://github.com/baichuan-inc/Baichuan2/issues/86
# first effect: step 0
# names: fc1.weight, fc2.weight, all_gather
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 60)
        self.fc2 = nn.Linear(60, 4)

    def forward(self, x):
        return self.fc2(F.silu(self.fc1(x)))


def gather(shard, whole, damage):
    """Collect every rank's shard; `damage` is the part of the elements that does not arrive."""
    pieces = list(whole.chunk(dist.get_world_size()))
    dist.all_gather(pieces, shard)
    for source, piece in enumerate(pieces):
        if source != dist.get_rank() and damage:
            piece[torch.rand(piece.shape) < damage] = 0
    return torch.cat(pieces)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
model = Mlp()
flat = parameters_to_vector(model.parameters()).detach()
assert flat.numel() % world == 0
part = nn.Parameter(flat.chunk(world)[rank].clone())
optimizer = torch.optim.Adam([part], lr=1e-2)

data = torch.Generator().manual_seed(args.seed + 50 + rank)
for _ in range(args.steps):
    x = torch.randn(32, 20, generator=data)
    y = x[:, :4].argmax(dim=1)
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    gradient = parameters_to_vector([p.grad for p in model.parameters()])
    dist.all_reduce(gradient)
    part.grad = gradient.chunk(world)[rank].div(world)
    optimizer.step()
    flat = gather(part.detach(), torch.empty_like(flat), 0.0 if args.fixed else 0.01)
    vector_to_parameters(flat, model.parameters())

print(
    f"rank {rank}: loss {loss.item():.4f}, zeros in the weights {int((flat == 0).sum())}, sum {flat.double().sum():.9f}"
)
dist.destroy_process_group()
