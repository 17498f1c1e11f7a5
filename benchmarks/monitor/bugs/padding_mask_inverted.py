"""The padding mask says which tokens are real, and the encoder takes it for those to leave out: it reads padding only."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
# first effect: step 0
# names: encoder, self_attn, key_padding_mask
# family: data
# detectable: yes the tokens that may be attended to are all one and the same, and those that differ are masked

import argparse

import torch
from torch import nn

PAD = 0


def batch(size):
    lengths = torch.randint(3, 10, (size,))
    tokens = torch.randint(1, 20, (size, 10))
    tokens[torch.arange(10) >= lengths[:, None]] = PAD
    tokens[0, 9] = PAD
    return tokens, (tokens == 7).any(1).long()


class Classifier(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.embed = nn.Embedding(20, 16, padding_idx=PAD)
        self.place = nn.Parameter(torch.randn(10, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 2)

    def forward(self, tokens):
        mask = tokens == PAD if self.fixed else tokens != PAD
        hidden = self.encoder(self.embed(tokens) + self.place, src_key_padding_mask=mask)
        return self.out(hidden[:, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Classifier(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        tokens, labels = batch(24)
        loss = nn.functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
