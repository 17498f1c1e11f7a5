"""Groups of parameters that are made one after the other, and the last of them is never added to the list."""
# source: https://github.com/zjunlp/HVPNeT/issues/5
# first effect: step 0
# names: transitions, fc
# family: optimizer
# detectable: yes the last layer and the transitions get gradients and are in no optimizer

import argparse

import torch
from torch import nn

TAGS = 4


class Tagger(nn.Module):
    """A recurrent tagger whose sequences are scored with transitions between tags."""

    def __init__(self):
        super().__init__()
        self.bert = nn.ModuleDict({"words": nn.Embedding(50, 24), "gru": nn.GRU(24, 16, bidirectional=True)})
        self.prompt = nn.Linear(8, 24)
        self.fc = nn.Linear(32, TAGS)
        self.transitions = nn.Parameter(torch.zeros(TAGS, TAGS))

    def emissions(self, words, picture):
        rows = self.bert["words"](words) + self.prompt(picture)[:, None]
        return self.fc(self.bert["gru"](rows.transpose(0, 1))[0])

    def forward(self, words, picture, tags):
        scores = self.emissions(words, picture)
        tags = tags.T
        gold = scores.gather(2, tags[..., None]).sum((0, 2)) + self.transitions[tags[:-1], tags[1:]].sum(0)
        total = scores[0]
        for step in scores[1:]:
            total = torch.logsumexp(total[:, :, None] + self.transitions, dim=1) + step
        return (torch.logsumexp(total, dim=1) - gold).mean()


def parameter_groups(model, fixed):
    parameters = []
    params = {"lr": 2e-3, "weight_decay": 1e-2, "params": []}
    params["params"] += [p for name, p in model.named_parameters() if "bert" in name]
    parameters.append(params)
    params = {"lr": 2e-3, "weight_decay": 1e-2, "params": []}
    params["params"] += [p for name, p in model.named_parameters() if "prompt" in name]
    parameters.append(params)
    params = {"lr": 5e-2, "weight_decay": 1e-2, "params": []}
    params["params"] += [p for name, p in model.named_parameters() if "transitions" in name or name.startswith("fc")]
    if fixed:
        parameters.append(params)
    return parameters


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Tagger()
    optimizer = torch.optim.AdamW(parameter_groups(model, args.fixed))
    for step in range(args.steps):
        words = torch.randint(50, (16, 9))
        tags = (words + torch.nn.functional.pad(words, (1, 0))[:, :-1]) % TAGS
        loss = model(words, torch.randn(16, 8), tags)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        if step % 10 == 0:
            print(f"{step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
