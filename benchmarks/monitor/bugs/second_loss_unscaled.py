"""With a loss scaler, the second of two backward passes is not scaled: after unscaling it counts for nothing."""
# source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html
# first effect: step 0
# names: scale
# family: precision
# detectable: yes of the passes whose gradients one scaled step takes, one is not scaled

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.classify = nn.Linear(32, 4)
        self.decode = nn.Linear(32, 16)

    def forward(self, x):
        z = self.encoder(x)
        return self.classify(z), self.decode(z)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for step in range(args.steps):
        x = torch.randn(32, 16)
        y = x[:, :4].argmax(1)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, again = net(x)
            loss = F.cross_entropy(logits, y)
            rebuilt = F.mse_loss(again, x)
        scaler.scale(loss).backward(retain_graph=True)
        (scaler.scale(rebuilt) if args.fixed else rebuilt).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f} {rebuilt.item():.4f}")


if __name__ == "__main__":
    main()
