"""A model is frozen as a whole, and marking only the adapters as trainable never thaws the adapters."""
# source: https://github.com/microsoft/LoRA/pull/125
# first effect: step 0
# names: lora_A, lora_B
# family: optimizer
# detectable: yes the adapters are given to the optimizer and never get a gradient

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Linear(nn.Linear):
    def __init__(self, inputs, outputs, r=4):
        super().__init__(inputs, outputs)
        self.lora_A = nn.Parameter(torch.empty(r, inputs))
        self.lora_B = nn.Parameter(torch.zeros(outputs, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return super().forward(x) + (x @ self.lora_A.T @ self.lora_B.T) * 2.0


def mark_only_lora_as_trainable(model, thaw):
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            parameter.requires_grad = False
        elif thaw:
            parameter.requires_grad = True


class SpeechTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 24, 3, padding=1)
        self.q, self.v = Linear(24, 24), Linear(24, 24)
        self.classifier = nn.Linear(24, 5)

    def forward(self, x):
        h = F.gelu(self.conv(x)).transpose(1, 2)
        weights = torch.softmax(self.q(h) @ h.transpose(1, 2) / 24**0.5, dim=-1)
        return self.classifier(weights @ self.v(h) + h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = SpeechTagger()
    for parameter in model.parameters():
        parameter.requires_grad = False
    mark_only_lora_as_trainable(model, thaw=args.fixed)
    model.classifier.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, args.steps)
    for batch in range(args.steps):
        frames = torch.randn(12, 8, 20)
        tags = frames[:, :5].argmax(1)
        logits = model(frames)
        loss = F.cross_entropy(logits.reshape(-1, 5), tags.reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if batch % 10 == 9:
            print(batch + 1, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
