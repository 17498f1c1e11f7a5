"""ResNet-50 under autocast to fp16, channels last, with a scaler: batches of 256 pictures of 224 x 224."""

import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
model = ResNetForImageClassification(ResNetConfig(num_labels=1000)).cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
scaler = torch.amp.GradScaler("cuda")

for step in range(15):
    pictures = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (256,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(pictures).logits, labels)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
