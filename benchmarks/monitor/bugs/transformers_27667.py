"""A linear decay made for the number of examples instead of the number of steps, so that the rate hardly falls."""
# source: https://github.com/huggingface/transformers/pull/27667
# first effect: step 1
# names: LinearLR, total_iters
# family: schedule
# detectable: no a rate that has not reached its end when the run ends may be meant so

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

torch.manual_seed(args.seed)
features = torch.randn(args.steps * 12, 20, 8)
labels = features.mean(dim=(1, 2)).gt(0).long() + features[:, 0, 0].gt(1).long()
vectorized_datasets = {"train": TensorDataset(features, labels)}
loader = DataLoader(vectorized_datasets["train"], batch_size=12, shuffle=True)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(8, 24, 5, padding=2)
        self.norm = nn.GroupNorm(4, 24)
        self.classify = nn.Linear(24, 3)

    def forward(self, x):
        return self.classify(F.relu(self.norm(self.frames(x.transpose(1, 2)))).mean(dim=2))


model = Speech()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
num_train_steps = len(loader)
total_train_steps = num_train_steps if args.fixed else len(vectorized_datasets["train"])
scheduler = LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=total_train_steps)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.4f}, last rate {scheduler.get_last_lr()[0]:.6f}")
