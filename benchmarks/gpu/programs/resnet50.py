"""ResNet-50 in fp32 with momentum: batches of 64 pictures of 224 x 224."""

import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
model = ResNetForImageClassification(ResNetConfig(num_labels=1000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss()

for step in range(15):
    pictures = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    loss = criterion(model(pictures).logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
