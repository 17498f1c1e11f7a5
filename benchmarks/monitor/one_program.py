"""One correct program in many configurations: python one_program.py --kind classifier|images|text --width 32 ...

What is learnt of one configuration must not alarm in another: see `variations.py`.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=("classifier", "images", "text"), default="classifier")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--rate", type=float, default=3e-3)
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--samples", type=int, default=256)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--evaluate", type=int, default=0, help="evaluate every so many steps")
parser.add_argument("--save", type=int, default=0, help="save a checkpoint after so many steps")
parser.add_argument("--resume", type=Path, help="go on from a checkpoint")
args = parser.parse_args()

torch.manual_seed(args.seed)
VOCABULARY, LENGTH = 24, 12


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        sizes = [16] + [width] * layers
        self.body = nn.Sequential(
            *(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1)) for a, b in pairwise(sizes))
        )
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.body(x))


class ConvNet(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        sizes = [1] + [width // 4] * layers
        blocks = (
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in pairwise(sizes)
        )
        self.body = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width // 4, 4)

    def forward(self, x):
        return self.head(self.body(x))


class TextModel(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.rnn = nn.GRU(width, width, layers, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x):
        return self.head(self.norm(self.rnn(self.words(x))[0]))


def data(samples):
    if args.kind == "text":
        start, stride = torch.randint(VOCABULARY, (samples, 1)), torch.randint(1, 4, (samples, 1))
        words = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
        return TensorDataset(words[:, :-1], words[:, 1:])
    if args.kind == "images":
        images, classes = torch.randn(samples, 1, 8, 8), torch.randint(4, (samples,))
        images[torch.arange(samples), 0, classes * 2] += 2
        return TensorDataset(images, classes)
    points = torch.randn(samples, 16)
    return TensorDataset(points, (points[:, :4].sum(1) > 0).long() + 2 * (points[:, 4:8].sum(1) > 0).long())


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(-1) == y).float().mean().item() for x, y in loader]
    model.train()
    return sum(right) / len(right)


def main():
    model = {"classifier": Classifier, "images": ConvNet, "text": TextModel}[args.kind](args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4 * args.steps)
    loader = DataLoader(data(args.samples), args.batch, shuffle=True, drop_last=True)
    held_out = DataLoader(data(64), 64)
    step = epoch = 0
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
        torch.set_rng_state(state["random"])
    passes = 0
    while step < args.steps:
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out.flatten(0, -2), y.flatten()) / args.accumulate
            loss.backward()
            passes += 1
            if passes % args.accumulate:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if args.evaluate and step % args.evaluate == 0:
                print(f"step {step}: accuracy {accuracy(model, held_out):.2f}")
            if step == args.save:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save({**state, "schedule": schedule.state_dict(), "random": torch.get_rng_state()}, "saved.pt")
            if step >= args.steps:
                break
        epoch += 1
    print(f"loss {loss.item() * args.accumulate:.3f} after {step} steps, {epoch} epochs")


if __name__ == "__main__":
    main()
