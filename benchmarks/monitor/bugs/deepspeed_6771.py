"""An engine that notes what is trainable when it is made, and writes only that into its checkpoints."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/6771
# first effect: step 15
# names: torch.save, encoder.0.weight, encoder.2.weight
# family: checkpoint
# detectable: yes the checkpoint of the model lacks weights that the model has

import argparse
import os
import tempfile

import torch
from torch import nn


class Engine:
    def __init__(self, module, lr, fixed):
        self.module = module
        self.managed = [n for n, p in module.named_parameters() if p.requires_grad or fixed]
        self.optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=lr, momentum=0.9)

    def backward(self, loss):
        self.optimizer.zero_grad()
        loss.backward()

    def step(self):
        self.optimizer.step()

    def save_checkpoint(self, path):
        state = self.module.state_dict()
        torch.save({"module": {n: state[n] for n in self.managed}, "optimizer": self.optimizer.state_dict()}, path)

    def load_checkpoint(self, path):
        saved = torch.load(path)
        self.module.load_state_dict(saved["module"], strict=False)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU())
        self.classifier = nn.Linear(40, 2)

    def forward(self, x):
        return self.classifier(self.encoder(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = Classifier()
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    engine = Engine(model, lr=0.1, fixed=args.fixed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "engine.pt")
        for step in range(args.steps):
            x = torch.randn(32, 10)
            loss = nn.functional.cross_entropy(engine.module(x), (x[:, 0] > x[:, 1]).long())
            engine.backward(loss)
            engine.step()
            if (step + 1) % 15 == 0:
                engine.save_checkpoint(path)
        fresh = Engine(Classifier(), lr=0.1, fixed=args.fixed)
        fresh.load_checkpoint(path)
    x = torch.randn(500, 10)
    right = [(m(x).argmax(dim=1) == (x[:, 0] > x[:, 1])).float().mean().item() for m in (model, fresh.module)]
    print(f"accuracy {right[0]:.3f}, of the checkpoint {right[1]:.3f}")


if __name__ == "__main__":
    main()
