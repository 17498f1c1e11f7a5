"""A model whose parts each initialise themselves, and which then initialises all of them again."""
# source: https://github.com/huggingface/transformers/issues/17877
# first effect: step 0
# names: encoder.project.weight, normal_
# family: init
# detectable: yes the same weights are initialised more than once before training

import argparse

import torch
from torch import nn


class Pretrained(nn.Module):
    initializer_range = 0.02
    once = False

    def post_init(self):
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if self.once and getattr(module, "_is_initialised", False):
            return
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.initializer_range)
            module._is_initialised = True
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class Encoder(Pretrained):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, 2 * width)
        self.project = nn.Linear(2 * width, width)
        self.post_init()

    def _init_weights(self, module):
        super()._init_weights(module)
        if module is self.project:
            nn.init.normal_(module.weight, std=self.initializer_range / 10)  # as deep networks want it

    def forward(self, ids):
        x = self.embed(ids)
        return x + self.project(torch.tanh(self.hidden(x)))


class SequenceClassifier(Pretrained):
    def __init__(self, vocabulary, width, classes):
        super().__init__()
        self.encoder = Encoder(vocabulary, width)
        self.classifier = nn.Linear(width, classes)
        self.post_init()

    def forward(self, ids):
        return self.classifier(self.encoder(ids).mean(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    Pretrained.once = args.fixed
    model = SequenceClassifier(100, 32, 4)
    print(f"standard deviation of encoder.project {model.encoder.project.weight.std().item():.5f}")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        ids = torch.randint(0, 100, (32, 8))
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
