"""The model shifts the labels and so does the loss function it calls: position t learns token t + 2."""
# source: https://github.com/huggingface/transformers/issues/47394
# first effect: step 0
# names: cross_entropy
# family: loss
# detectable: no every call is well-formed; which token a position should predict is the author's meaning

import argparse

import torch
from torch import nn


def causal_lm_loss(logits, labels, vocab, shift_labels=None):
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    return nn.functional.cross_entropy(logits.reshape(-1, vocab), shift_labels.reshape(-1), ignore_index=-100)


class GitLike(nn.Module):
    def __init__(self, fixed, vocab=30, dim=32):
        super().__init__()
        self.fixed, self.vocab = fixed, vocab
        self.image = nn.Linear(8, dim)
        self.text = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, pixels, ids):
        h = torch.cat([self.image(pixels)[:, None], self.text(ids)], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(h.shape[1])
        logits = self.head(self.block(h, src_mask=mask, is_causal=True))
        shifted, labels = logits[:, 1:-1], ids[:, 1:]
        if self.fixed:
            return causal_lm_loss(shifted, None, self.vocab, shift_labels=labels)
        return causal_lm_loss(shifted.reshape(-1, self.vocab), labels.reshape(-1), self.vocab)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = GitLike(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    follow = torch.randperm(30)
    for step in range(args.steps):
        ids = [torch.randint(0, 30, (16,))]
        for _ in range(9):
            # The next token depends on the last one, with some surprises.
            surprise = torch.rand(16) < 0.2
            ids.append(torch.where(surprise, torch.randint(0, 30, (16,)), follow[ids[-1]]))
        ids = torch.stack(ids, dim=1)
        loss = model(torch.randn(16, 8), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
