"""A ConvNeXt-T of transformers under autocast to fp16 with a scaled loss: batches of 64 pictures of 224 x 224."""

import torch
from transformers import ConvNextConfig, ConvNextForImageClassification

torch.manual_seed(0)
model = ConvNextForImageClassification(ConvNextConfig(num_labels=1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
scaler = torch.amp.GradScaler("cuda")

for step in range(12):
    pictures = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(pixel_values=pictures, labels=labels).loss
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
