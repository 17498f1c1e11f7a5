"""A contrastive data set applies its transform once and gives the result twice: both views are the same."""
# source: https://arxiv.org/abs/2002.05709
# first effect: step 0
# names: encoder, loader0
# family: data
# detectable: yes one model is given two tensors of a batch that are the same in every bit, and gives the same for both

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true", help="apply the transform anew for the second view")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Views(Dataset):
    """Signals of eight kinds, each as two views."""

    def __init__(self, samples: int = 256) -> None:
        kinds = torch.randn(8, 32)
        self.signals = kinds[torch.randint(0, 8, (samples,))] + 0.3 * torch.randn(samples, 32)

    def __len__(self) -> int:
        return len(self.signals)

    def transformed(self, index: int) -> torch.Tensor:
        """A signal, shifted and scaled at random."""
        shift = int(torch.randint(-3, 4, ()))
        return self.signals[index].roll(shift) * (0.7 + 0.6 * torch.rand(()))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.transformed(index)
        return first, self.transformed(index) if args.fixed else first


encoder = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
loader = DataLoader(Views(), batch_size=32, shuffle=True, drop_last=True)
step = 0
while step < args.steps:
    for one, other in loader:
        if step == args.steps:
            break
        a, b = (nn.functional.normalize(encoder(view), dim=1) for view in (one, other))
        loss = nn.functional.cross_entropy(a @ b.T / 0.2, torch.arange(len(a)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f}")
        step += 1
