"""A trainer freezes all and thaws what the optimizer at hand holds, so that a frozen backbone trains along."""
# source: https://github.com/Lightning-AI/pytorch-lightning/issues/712
# first effect: step 0
# names: backbone
# family: optimizer
# detectable: yes weights that were frozen before training require gradients again at the first step and change

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(4, 16, 5, stride=2), nn.ReLU(), nn.Conv1d(16, 24, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1)
        )
        self.head = nn.Linear(24, 3)
        for parameter in self.backbone.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        return self.head(self.backbone(x).squeeze(-1))

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return [torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)]

    def train_dataloader(self):
        y = torch.randint(3, (320,))
        time = torch.arange(40.0)
        waves = torch.sin(time * (0.3 + 0.4 * y[:, None]))[:, None].repeat(1, 4, 1)
        return DataLoader(TensorDataset(waves + 0.5 * torch.randn_like(waves), y), 32, shuffle=True)


class Trainer:
    def __init__(self, max_epochs, fixed):
        self.max_epochs, self.fixed = max_epochs, fixed

    def run_training_batch(self, model, batch, index):
        for optimizer in self.optimizers:
            if not self.fixed:
                for parameter in model.parameters():
                    parameter.requires_grad = False
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.requires_grad = True
            loss = model.training_step(batch, index)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    def fit(self, model):
        self.optimizers = model.configure_optimizers()
        loader = model.train_dataloader()
        for epoch in range(self.max_epochs):
            model.train()
            for index, batch in enumerate(loader):
                loss = self.run_training_batch(model, batch, index)
            print(f"Epoch {epoch}: loss={loss:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    Trainer(args.steps // 10, args.fixed).fit(Classifier())


if __name__ == "__main__":
    main()
