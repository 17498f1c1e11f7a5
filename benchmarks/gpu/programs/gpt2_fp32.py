"""GPT-2 of 124 M parameters in fp32 with AdamW: batches of 8 x 1024."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)

for step in range(12):
    tokens = torch.randint(0, 50257, (8, 1024), device="cuda")
    loss = model(tokens, labels=tokens).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
