"""``fully_shard`` in mixed precision, seen from the first of eight ranks."""

import os

import torch
import torch.distributed as dist
from torch import nn

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # before 2.6
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", MASTER_ADDR="localhost", MASTER_PORT="29500")
dist.init_process_group("nccl")
torch.cuda.set_device(0)
layers = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
model = nn.Sequential(*layers, nn.Linear(256, 100)).cuda()
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mp_policy=half)
fully_shard(model, mp_policy=half)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
for _ in range(3):
    x, y = torch.randn(4, 64, 256, device="cuda"), torch.randint(0, 100, (4, 64), device="cuda")
    loss = nn.functional.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
