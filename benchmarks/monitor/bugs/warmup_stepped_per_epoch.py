"""A warm-up that counts steps is stepped once an epoch: the whole first epoch has a rate of zero."""
# source: https://huggingface.co/docs/transformers/main_classes/optimizer_schedules
# first effect: step 0
# names: rate, lr
# family: schedule
# detectable: yes a schedule holds the rate at zero step after step, and does not advance

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Melody(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = nn.Embedding(30, 24)
        self.memory = nn.GRU(24, 48, batch_first=True)
        self.next = nn.Linear(48, 30)

    def forward(self, heard):
        return self.next(self.memory(self.notes(heard))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    tunes = (torch.randint(30, (192, 1)) + 4 * torch.arange(13)) % 30
    loader = DataLoader(TensorDataset(tunes), batch_size=16, shuffle=True)
    net = Melody()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: min(1.0, count / 5))
    for ep in range(args.steps // len(loader)):
        for (tune,) in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(tune[:, :-1]).transpose(1, 2), tune[:, 1:])
            loss.backward()
            optimizer.step()
            if args.fixed:
                warmup.step()
        if not args.fixed:
            warmup.step()
        print(f"epoch {ep}: {loss.item():.4f} at {warmup.get_last_lr()[0]:g}")


if __name__ == "__main__":
    main()
