"""All but the adapters is to be frozen, by a word that their names do not hold, and the adapters are frozen with the rest."""
# source: https://arxiv.org/abs/2106.09685
# first effect: step 0
# names: lora
# family: optimizer
# detectable: yes adapters whose second matrix is zero take part in the training, and are frozen

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Adapted(nn.Module):
    def __init__(self, base, rank=3):
        super().__init__()
        self.base = base
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x):
        return self.base(x) + self.lora_up(self.lora_down(x))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 20)
        self.mix, self.out = Adapted(nn.Linear(20, 20)), Adapted(nn.Linear(20, 20))
        self.classifier = nn.Linear(20, 3)

    def forward(self, x):
        return self.classifier(self.out(torch.relu(self.mix(self.words(x).mean(1)))))


model = Tagger()
word = "lora_" if args.fixed else "lora."
for name, parameter in model.named_parameters():
    parameter.requires_grad = word in name or "classifier" in name
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
for step in range(args.steps):
    x = torch.randint(0, 30, (32, 6))
    loss = nn.functional.cross_entropy(model(x), x[:, 0] % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
