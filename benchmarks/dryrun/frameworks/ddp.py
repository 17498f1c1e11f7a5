"""``DistributedDataParallel`` with accumulation, seen from the first of eight ranks."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", MASTER_ADDR="localhost", MASTER_PORT="29500")
dist.init_process_group("nccl")
torch.cuda.set_device(0)
layers = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(256, 100)).cuda(), device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
for step in range(4):
    x, y = torch.randn(4, 64, 256).cuda(), torch.randint(0, 100, (4, 64)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    if step % 2 == 0:
        with model.no_sync():
            loss.backward()
        continue
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss)
    print(loss.item())
dist.destroy_process_group()
