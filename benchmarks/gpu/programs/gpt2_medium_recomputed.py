"""GPT-2 medium (355 M parameters) under autocast to bf16, activations recomputed: batches of 16 x 1024."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_layer=24, n_embd=1024, n_head=16, use_cache=False)
model = GPT2LMHeadModel(config).cuda()
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for step in range(8):
    tokens = torch.randint(0, 50257, (16, 1024), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens, labels=tokens).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
