"""BERT-base learns masked words under autocast to fp16 with a scaler: batches of 32 x 512."""

import torch
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)
model = BertForMaskedLM(BertConfig()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda")

for step in range(12):
    tokens = torch.randint(0, 30522, (32, 512), device="cuda")
    labels = torch.where(torch.rand(32, 512, device="cuda") < 0.15, tokens, -100)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels).loss
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
