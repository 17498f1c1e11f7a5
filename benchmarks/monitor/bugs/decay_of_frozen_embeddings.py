"""All embeddings but the new one are frozen by zeroing their gradients; the decoupled weight decay of AdamW shrinks them all the same."""
# source: https://github.com/huggingface/diffusers/issues/1009
# first effect: step 0
# names: token_embedding.weight, AdamW
# family: optimizer
# detectable: yes elements whose gradient was set to zero after the backward pass still change in the step

import argparse

import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, ids):
        return self.layer(self.token_embedding(ids)).mean(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    encoder = TextEncoder()
    encoder.layer.requires_grad_(False)
    placeholder = 49
    decay = 0.0 if args.fixed else 1e-2
    optimizer = torch.optim.AdamW(encoder.token_embedding.parameters(), lr=5e-2, weight_decay=decay)
    concept = torch.randn(32)
    for step in range(args.steps):
        ids = torch.randint(0, 49, (16, 6))
        ids[:, 3] = placeholder
        loss = 1 - nn.functional.cosine_similarity(encoder(ids), concept[None]).mean()
        loss.backward()
        keep = torch.arange(50) == placeholder
        encoder.token_embedding.weight.grad[~keep] = 0
        optimizer.step()
        optimizer.zero_grad()
        if step % 6 == 0:
            size = encoder.token_embedding.weight[~keep].norm().item()
            print(f"step {step} loss {loss.item():.4f} norm of the frozen rows {size:.4f}")


if __name__ == "__main__":
    main()
