import os
import torch
import torch.distributed as dist
from torch import nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
torch.manual_seed(0)
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(local_rank)
device = torch.device("cuda", local_rank)
rows = TensorDataset(torch.randn(1024, 16), torch.randint(0, 4, (1024,)))
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=32, sampler=sampler, num_workers=4, pin_memory=True)

model = DDP(nn.Linear(16, 4).to(device), device_ids=[local_rank])
if rank == 0:
    obj = ["name"]
else:
    obj = [None]
dist.broadcast_object_list(obj, src=0)
if rank == 0:
    print("start")
dist.barrier()

opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad(); loss.backward(); opt.step()

    if rank == 0:
        torch.save(model.module.state_dict(), f"{obj[0]}.pt")
    dist.barrier()
dist.destroy_process_group()
