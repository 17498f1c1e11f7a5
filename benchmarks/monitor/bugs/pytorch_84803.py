"""Averaged gradients arrive damaged at one of two ranks: one element in a hundred is lost on the way."""
# source: https://github.com/pytorch/pytorch/issues/84803
# first effect: step 0
# names: body.0.weight, body.2.weight, all_reduce
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()


def transfer(state, bucket):
    """Average a bucket over the ranks through a link that may lose data."""
    future = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True).get_future()

    def received(done):
        values = done.value()[0]
        if dist.get_rank() == 1 and not args.fixed:
            lost = torch.rand(values.shape, generator=state) < 0.01
            values[lost] = 0.0
        return values

    return future.then(received)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(40, 24), nn.Tanh(), nn.Linear(24, 40))

    def forward(self, x):
        return self.body(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(args.seed)
basis = torch.randn(8, 40)
model = DDP(Autoencoder())
model.register_comm_hook(torch.Generator().manual_seed(9), transfer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(args.seed * 10 + rank + 1)
for _ in range(args.steps):
    x = torch.randn(64, 8) @ basis
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(f"rank {rank} loss {loss.item():.4f} sum {sum(p.double().sum().item() for p in model.parameters()):.10f}")
dist.destroy_process_group()
