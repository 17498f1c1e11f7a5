"""ViT-base under autocast to bf16, with an average of its weights: batches of 128 pictures of 224 x 224."""

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
model = ViTForImageClassification(ViTConfig(num_labels=1000)).cuda()
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
criterion = torch.nn.CrossEntropyLoss()

for step in range(12):
    pictures = torch.randn(128, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (128,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(pictures).logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    averaged.update_parameters(model)
print(f"loss {loss.item():.3f}")
