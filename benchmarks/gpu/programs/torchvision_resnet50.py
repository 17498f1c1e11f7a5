"""ResNet-50 of torchvision, channels last, under autocast to fp16: batches of 256 pictures of 224 x 224."""

import torch
import torchvision
from torch import nn

torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
device = torch.device("cuda:0")
model = torchvision.models.resnet50(weights=None, num_classes=1000).to(device, memory_format=torch.channels_last)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cuda")

model.train()
for step in range(12):
    images = torch.randn(256, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
    target = torch.randint(0, 1000, (256,), device=device)
    with torch.autocast("cuda", dtype=torch.float16):
        output = model(images)
        loss = criterion(output, target)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
