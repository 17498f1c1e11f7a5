"""The labels of a masked language model are copied once the masks are in place: it is to tell what it is given."""
# source: https://huggingface.co/docs/transformers/main_classes/data_collator
# first effect: step 0
# names: labels, cross_entropy
# family: data
# detectable: yes the few targets that count are all the inputs at their own positions

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

MASK, PAD = 1, 0


class TinyBert(nn.Module):
    def __init__(self, vocab, d=48, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, d, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, d)
        self.norm = nn.LayerNorm(d)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 2 * d, 0.1, activation="gelu", batch_first=True) for _ in range(layers)
        )
        self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, vocab))

    def forward(self, ids):
        pad = ids.eq(PAD)
        h = self.drop(self.norm(self.tok(ids) + self.pos(torch.arange(ids.size(1)))))
        for layer in self.layers:
            h = layer(h, src_key_padding_mask=pad)
        return self.head(h)


def mask_tokens(ids, vocab, prob, fixed):
    ids = ids.clone()
    labels = ids.clone()
    chosen = torch.bernoulli(torch.full(ids.shape, prob)).bool() & ids.ne(PAD)
    replaced = chosen & torch.bernoulli(torch.full(ids.shape, 0.8)).bool()
    ids[replaced] = MASK
    noise = chosen & ~replaced & torch.bernoulli(torch.full(ids.shape, 0.5)).bool()
    ids[noise] = torch.randint(2, vocab, (int(noise.sum()),))
    if not fixed:
        labels = ids.clone()
    labels[~chosen] = -100
    return ids, labels


def batches(corpus, size, generator):
    for rows in torch.randperm(len(corpus), generator=generator).split(size):
        yield corpus[rows]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=40)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    vocab = 80
    start = torch.randint(0, vocab - 2, (400, 1))
    corpus = (start + 3 * torch.arange(28)) % (vocab - 2) + 2
    lengths = torch.randint(16, 29, (400, 1))
    corpus[torch.arange(28) >= lengths] = PAD
    model = TinyBert(vocab)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 10))
    g = torch.Generator().manual_seed(3)
    for epoch in range(max(1, args.steps // 20)):
        model.train()
        for batch in batches(corpus, 20, g):
            ids, labels = mask_tokens(batch, vocab, 0.15, args.fixed)
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
        print(f"epoch {epoch}: mlm loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
