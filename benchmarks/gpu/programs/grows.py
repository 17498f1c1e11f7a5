"""Keeps the loss of every step with its graph: runs out of memory at a step that can be told beforehand."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
total = 0.0

for step in range(1000):
    inputs = torch.randn(16384, 4096, device="cuda")
    labels = torch.randint(0, 10, (16384,), device="cuda")
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    total = total + loss
print(f"mean loss {total / 1000}")
