"""A language model with a task head beside it: the optimizer is made of the language model's parameters alone."""
# source: https://github.com/huggingface/pytorch-openai-transformer-lm/pull/6
# first effect: step 0
# names: clf_head, linear
# family: optimizer
# detectable: yes a layer that gets gradients at every backward pass is in no optimizer

import argparse

import torch
from torch import nn

VOCABULARY, CONTEXT, CLASSES = 40, 12, 3


class TransformerModel(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.place = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, activation="gelu")
        self.h = nn.TransformerEncoder(layer, depth)

    def forward(self, tokens):
        return self.h(self.embed(tokens) + self.place)


class ClfHead(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(width, CLASSES)

    def forward(self, hidden):
        return self.linear(self.dropout(hidden[:, -1]))


def iterate(tokens, classes, size, generator):
    order = torch.randperm(len(tokens), generator=generator)
    for rows in order.split(size):
        yield tokens[rows], classes[rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    tokens = torch.randint(VOCABULARY, (320, CONTEXT))
    classes = tokens[:, 0] % CLASSES
    dh_model, clf_head = TransformerModel(), ClfHead()
    parameters = list(dh_model.parameters())
    if args.fixed:
        parameters += list(clf_head.parameters())
    model_opt = torch.optim.Adam(parameters, lr=1e-3)
    shuffling = torch.Generator().manual_seed(args.seed)
    n_updates = 0
    while n_updates < args.steps:
        dh_model.train()
        clf_head.train()
        for x, y in iterate(tokens, classes, 32, shuffling):
            loss = nn.functional.cross_entropy(clf_head(dh_model(x)), y)
            loss.backward()
            model_opt.step()
            dh_model.zero_grad()
            clf_head.zero_grad()
            n_updates += 1
            if n_updates == args.steps:
                break
        print(f"{n_updates} updates, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
