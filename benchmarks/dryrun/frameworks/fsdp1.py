"""``FullyShardedDataParallel`` in mixed precision, with a policy by class, seen from the first of eight ranks."""

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", MASTER_ADDR="localhost", MASTER_PORT="29500")
dist.init_process_group("nccl")
torch.cuda.set_device(0)
layers = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
model = FullyShardedDataParallel(
    nn.Sequential(*layers, nn.Linear(256, 100)),
    auto_wrap_policy=policy,
    mixed_precision=half,
    device_id=torch.cuda.current_device(),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
for _ in range(3):
    x, y = torch.randn(4, 64, 256, device="cuda"), torch.randint(0, 100, (4, 64), device="cuda")
    loss = nn.functional.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
