"""Teacher and student share a model, and putting the teacher into evaluation mode takes the dropout from the student, too."""
# source: https://github.com/huggingface/trl/pull/5862
# first effect: step 0
# names: model
# family: mode
# detectable: yes a model with dropout that train() was called on is trained in the evaluation mode it was read in

import argparse

import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 30


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.base = nn.Linear(32, 32)
        self.adapter = nn.Linear(32, 32)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(32, VOCAB)
        self.adapted = True

    def forward(self, ids):
        hidden = self.embed(ids)
        extra = self.adapter(self.drop(hidden)) if self.adapted else 0
        return self.head(torch.tanh(self.base(hidden) + extra))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    for part in (model.embed, model.base, model.head):
        part.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.adapter.parameters(), lr=3e-3)
    for step in range(args.steps):
        model.train()
        ids = torch.randint(0, VOCAB, (16, 9))
        model.eval()
        model.adapted = False
        with torch.no_grad():
            teacher = model(ids[:, :-1])
        model.adapted = True
        if args.fixed:
            model.train()
        student = model(ids[:, :-1])
        loss = F.cross_entropy(student.flatten(0, 1), ids[:, 1:].flatten())
        loss = loss + 0.1 * F.kl_div(student.log_softmax(-1), teacher.softmax(-1), reduction="batchmean") / 8
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
