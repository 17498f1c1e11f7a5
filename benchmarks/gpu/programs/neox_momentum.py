"""A GPT-NeoX of 410 M parameters (Pythia) in bf16 with SGD with momentum: batches of 16 x 1024."""

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

torch.manual_seed(0)
config = GPTNeoXConfig(
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    vocab_size=50304,
    use_cache=False,
)
model = GPTNeoXForCausalLM(config).bfloat16().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

for step in range(8):
    ids = torch.randint(0, 50304, (16, 1024)).cuda()
    loss = model(ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
