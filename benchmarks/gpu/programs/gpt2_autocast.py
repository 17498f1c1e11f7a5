"""GPT-2 of 124 M parameters under autocast to bf16, four batches of 8 x 1024 a step."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)

for step in range(12):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(4):
        tokens = torch.randint(0, 50257, (8, 1024), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss / 4
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item() * 4:.3f}")
