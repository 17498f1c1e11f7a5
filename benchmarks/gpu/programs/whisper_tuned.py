"""Whisper (small) is tuned, its encoder frozen, under autocast to fp16: batches of 16 x 30 seconds."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(0)
config = WhisperConfig(
    d_model=768,
    encoder_layers=12,
    decoder_layers=12,
    encoder_attention_heads=12,
    decoder_attention_heads=12,
    encoder_ffn_dim=3072,
    decoder_ffn_dim=3072,
    use_cache=False,
)
model = WhisperForConditionalGeneration(config)
for parameter in model.model.encoder.parameters():
    parameter.requires_grad = False
model = model.to("cuda")
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-5)
scaler = torch.amp.GradScaler("cuda")

for step in range(8):
    features = torch.randn(16, 80, 3000, device="cuda")
    labels = torch.randint(0, 51000, (16, 128), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model(input_features=features, labels=labels).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
print(f"loss {loss.item():.3f}")
