"""Column and row parallel layers on a mesh of eight ranks, seen from the first of them."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", MASTER_ADDR="localhost", MASTER_PORT="29500")
torch.cuda.set_device(0)
mesh = init_device_mesh("cuda", (8,))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


model = nn.Sequential(*[Block() for _ in range(3)]).cuda()
for block in model:
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
for _ in range(3):
    loss = model(torch.randn(32, 256, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
