"""Masked language modelling with an encoder: 15 % of the tokens are hidden (80/10/10), linear warm-up and decay."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("mlm")

PAD, MASK, FIRST_WORD = 0, 1, 2


class Encoder(nn.Module):
    def __init__(self, vocab: int, hidden: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.word = nn.Embedding(vocab, hidden, padding_idx=PAD)
        self.place = nn.Embedding(length, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(hidden, heads, hidden * 4, 0.1, "gelu", batch_first=True) for _ in range(layers)
        )
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.decoder = nn.Linear(hidden, vocab)
        self.decoder.weight = self.word.weight
        nn.init.normal_(self.word.weight, std=0.05)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        h = self.drop(self.norm(self.word(ids) + self.place(places)))
        for layer in self.layers:
            h = layer(h, src_key_padding_mask=ids.eq(PAD))
        return self.decoder(self.transform(h))


class Masker:
    def __init__(self, vocab: int, seed: int) -> None:
        self.vocab = vocab
        self.rng = torch.Generator().manual_seed(seed)

    def __call__(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        rand = torch.rand(ids.shape, generator=self.rng)
        chosen = (rand < 0.15) & ids.ne(PAD)
        chosen[:, 0] = True  # never an empty set
        labels = torch.where(chosen, ids, -100)
        how = torch.rand(ids.shape, generator=self.rng)
        masked = torch.where(chosen & (how < 0.8), MASK, ids)
        noise = torch.randint(FIRST_WORD, self.vocab, ids.shape, generator=self.rng)
        masked = torch.where(chosen & (how >= 0.8) & (how < 0.9), noise, masked)
        return masked, labels


def corpus(n: int, length: int, vocab: int, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    start = 5 * torch.randint(0, 6, (n, 1), generator=g)
    ids = FIRST_WORD + (start + 3 * torch.arange(length)) % (vocab - FIRST_WORD)
    lengths = torch.randint(length // 2, length + 1, (n, 1), generator=g)
    return ids.masked_fill(torch.arange(length) >= lengths, PAD)


def run(seed: int, steps: int, size: int) -> None:
    torch.manual_seed(seed)
    vocab, length = 40, 20
    ids = corpus(256, length, vocab, seed)
    masker = Masker(vocab, seed + 1)
    model = Encoder(vocab, size, 2, 4, length).train()
    no_decay = ("bias", "norm")
    grouped = [
        {"params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)], "weight_decay": 0.0},
    ]
    optim = torch.optim.AdamW(grouped, lr=2e-3, eps=1e-6)
    warmup = max(1, steps // 10)
    sched = LambdaLR(optim, lambda s: min((s + 1) / warmup, max(0.0, (steps - s) / max(1, steps - warmup))))
    for step in range(steps):
        rows = torch.randint(0, len(ids), (16,))
        inputs, labels = masker(ids[rows])
        loss = F.cross_entropy(model(inputs).transpose(1, 2), labels, ignore_index=-100)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optim.step()
        sched.step()
        if step % 10 == 0:
            log.info("step=%d loss=%.4f lr=%.2e", step, loss.item(), sched.get_last_lr()[0])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--size", type=int, default=64)
    run(**vars(p.parse_args()))
