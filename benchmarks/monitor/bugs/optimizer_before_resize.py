"""A language model gets new tokens after its optimizer was made: the optimizer goes on owning the old embedding."""
# source: https://github.com/huggingface/transformers/pull/3532
# first effect: step 0
# names: tok.weight, resize_token_embeddings
# family: optimizer
# detectable: yes the new embedding receives gradients and no optimizer owns it

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 40)

    def resize_token_embeddings(self, vocab):
        grown = nn.Embedding(vocab, self.tok.embedding_dim)
        grown.weight.data[: self.tok.num_embeddings] = self.tok.weight.data
        self.tok = grown

    def forward(self, ids):
        hidden, _ = self.rnn(self.tok(ids))
        return self.head(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = TinyLM(32, 48)
    if args.fixed:
        model.resize_token_embeddings(40)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        model.resize_token_embeddings(40)

    corpus = torch.randint(0, 40, (400,))
    for step in range(args.steps):
        starts = torch.randint(0, 400 - 17, (16,)).tolist()
        batch = torch.stack([corpus[s : s + 17] for s in starts])
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
