"""Names of layers without weight decay that are those of another family of models: all norms decay."""
# source: https://github.com/deepspeedai/DeepSpeedExamples/pull/755
# first effect: step 0
# names: layernorm, weight_decay
# family: optimizer
# detectable: no decay of norms is in use, too

import argparse

import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.o_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.input_layernorm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.silu(self.gate(self.post_attention_layernorm(x))))


class Llama(nn.Module):
    def __init__(self, vocabulary=28, width=32):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(DecoderLayer(width), DecoderLayer(width))
        self.norm = nn.RMSNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        return self.lm_head(self.norm(self.layers(self.embed_tokens(ids))))


def grouped_parameters(model, weight_decay, no_decay):
    groups = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups[any(part in name.lower() for part in no_decay)].append(parameter)
    return [{"params": groups[False], "weight_decay": weight_decay}] + (
        [{"params": groups[True], "weight_decay": 0.0}] if groups[True] else []
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = Llama()
    no_decay = ("bias", "layernorm.weight", "norm.weight") if args.fixed else ("bias", "layer_norm.weight")
    optimizer = torch.optim.AdamW(grouped_parameters(model, 0.1, no_decay), lr=2e-3, betas=(0.9, 0.95))
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 5)
    for step in range(args.steps):
        start = torch.randint(28, (12, 1))
        ids = (start + 2 * torch.arange(15)) % 28
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        if step % 10 == 9:
            print(f"Step {step + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
