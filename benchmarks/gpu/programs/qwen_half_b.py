"""A Qwen2 of 0.5 B parameters, its vocabulary of 151,936, recomputed, in bf16 with accumulation over 4 batches of 8 x 1024."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=151936,
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    tie_word_embeddings=True,
    use_cache=False,
    torch_dtype=torch.bfloat16,
)
model = Qwen2ForCausalLM(config).to(device="cuda", dtype=torch.bfloat16)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
accumulation = 4

for step in range(5):
    for _ in range(accumulation):
        tokens = torch.randint(0, 151936, (8, 1024), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss / accumulation
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print(f"loss {loss.item():.3f}")
