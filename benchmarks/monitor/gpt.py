"""The benchmark model: a GPT of four layers and 0.8 M parameters that learns characters, as a plain training program.

python gpt.py [--steps 30] [--seed 0] [--device cpu]
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH, BLOCK, WIDTH, HEADS, LAYERS, DROPOUT = 8, 64, 128, 4, 4, 0.1
WORDS = (
    "the a one model layer weight reads writes keeps loses learns and or but then quickly slowly never always".split()
)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(DROPOUT)
        self.register_buffer("mask", torch.tril(torch.ones(BLOCK, BLOCK, dtype=torch.bool)))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        y = self.drop(F.softmax(scores, dim=-1)) @ v
        return self.proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(DROPOUT)
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tok = nn.Embedding(vocabulary, WIDTH)
        self.pos = nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, ids, targets=None):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_text(seed, words=4000):
    """Return characters as numbers, training part and rest, and how many characters there are."""
    drawn = torch.randint(0, len(WORDS), (words,), generator=torch.Generator().manual_seed(seed))
    text = " ".join(WORDS[i] for i in drawn.tolist())
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    cut = int(0.9 * len(data))
    return data[:cut], data[cut:], 65


def get_batch(data):
    starts = torch.randint(0, len(data) - BLOCK - 1, (BATCH,))
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    y = torch.stack([data[i + 1 : i + BLOCK + 1] for i in starts])
    return x, y


@torch.no_grad()
def estimate(model, data):
    model.eval()
    loss = sum(model(*get_batch(data))[1].item() for _ in range(2)) / 2
    model.train()
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, held, vocabulary = make_text(args.seed)
    train, held = train.to(args.device), held.to(args.device)
    model = GPT(vocabulary).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

    for step in range(args.steps):
        x, y = get_batch(train)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}, held out {estimate(model, held):.4f}")


if __name__ == "__main__":
    main()
