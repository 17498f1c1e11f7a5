"""T5-small in fp32 with Adafactor: batches of 16 x 512 and 16 x 128."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=0)).cuda()
model.train()
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)

for step in range(10):
    source = torch.randint(0, 32128, (16, 512), device="cuda")
    target = torch.randint(0, 32128, (16, 128), device="cuda")
    loss = model(input_ids=source, labels=target).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
