"""Wav2Vec2 learns letters with CTC, in fp32: batches of 8 recordings of 5 seconds."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

torch.manual_seed(0)
config = Wav2Vec2Config(mask_time_prob=0.0, layerdrop=0.0, ctc_loss_reduction="mean")
model = Wav2Vec2ForCTC(config).to("cuda")
model.freeze_feature_encoder()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)

for step in range(10):
    sound = torch.randn(8, 80000, device="cuda")
    letters = torch.randint(1, 32, (8, 60), device="cuda")
    loss = model(sound, labels=letters).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.3f}")
