import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
data = TensorDataset(torch.load("images.pt", weights_only=True), torch.load("labels.pt", weights_only=True))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=4, pin_memory=True)
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
model = DistributedDataParallel(model, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(10):
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
