"""A CLIP of ViT-B/32 learns from pairs of pictures and texts under autocast to bf16: batches of 256."""

import torch
from transformers import CLIPConfig, CLIPModel

device = torch.device("cuda")
torch.manual_seed(0)
model = CLIPModel(CLIPConfig()).to(device)
decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.2}, {"params": others, "weight_decay": 0.0}], lr=5e-4, betas=(0.9, 0.98)
)

for step in range(12):
    pictures = torch.randn(256, 3, 224, 224, device=device)
    texts = torch.randint(0, 49000, (256, 77), device=device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=texts, pixel_values=pictures, return_loss=True).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
