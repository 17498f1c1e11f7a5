"""Word-level language model with nn.TransformerEncoder and a causal mask, DataLoader, OneCycleLR stepped by batch."""

from argparse import ArgumentParser

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, tokens, bptt):
        self.tokens, self.bptt = tokens, bptt

    def __len__(self):
        return (len(self.tokens) - 1) // self.bptt

    def __getitem__(self, index):
        start = index * self.bptt
        chunk = self.tokens[start : start + self.bptt + 1]
        return chunk[:-1], chunk[1:]


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-9.21 / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class LanguageModel(nn.Module):
    def __init__(self, vocab, d_model, bptt):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.position = PositionalEncoding(d_model, bptt)
        layer = nn.TransformerEncoderLayer(d_model, 2, 2 * d_model, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(bptt), persistent=False)

    def forward(self, tokens):
        n = tokens.size(1)
        h = self.encoder(self.position(self.embed(tokens)), mask=self.mask[:n, :n], is_causal=True)
        return self.head(self.norm(h))


def markov_text(length, vocab, generator):
    """A chain in which each word has three possible followers."""
    followers = torch.randint(0, vocab, (vocab, 3), generator=generator)
    picks = torch.randint(0, 3, (length,), generator=generator)
    words = [0]
    for pick in picks.tolist():
        words.append(int(followers[words[-1], pick]))
    return torch.tensor(words)


def perplexity(model, loader, loss_fn):
    model.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for x, y in loader:
            total += loss_fn(model(x).flatten(0, 1), y.flatten()).item() * y.numel()
            count += y.numel()
    model.train()
    return float(torch.exp(torch.tensor(total / count)))


parser = ArgumentParser()
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--steps", type=int, default=64)
parser.add_argument("--size", type=int, default=48)
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()

torch.manual_seed(args.seed)
g = torch.Generator()
g.manual_seed(args.seed)
vocab, bptt = 50, 24
stream = markov_text(bptt * args.batch * 30, vocab, g)
cut = int(len(stream) * 0.9)
train_loader = DataLoader(Windows(stream[:cut], bptt), batch_size=args.batch, shuffle=True, generator=g)
valid_loader = DataLoader(Windows(stream[cut:], bptt), batch_size=args.batch)

model = LanguageModel(vocab, args.size, bptt)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=args.steps, pct_start=0.2)

step = 0
while step < args.steps:
    for x, y in train_loader:
        if step == args.steps:
            break
        logits = model(x)
        loss = loss_fn(logits.reshape(-1, vocab), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        step += 1
        if step % 16 == 0:
            print(
                f"{step:4d} loss {loss.item():.3f} lr {scheduler.get_last_lr()[0]:.2e} ppl {perplexity(model, valid_loader, loss_fn):.1f}"
            )
