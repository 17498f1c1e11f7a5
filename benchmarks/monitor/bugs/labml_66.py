"""The soft part of a distillation compares the teacher with itself: the student learns from the labels alone."""
# source: https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/66
# first effect: step 0
# names: kl_div
# family: loss
# detectable: yes a part of the loss is zero in every step and hangs on nothing that is trained

import argparse

import torch
from torch import nn


class Distillation(nn.Module):
    def __init__(self, large, small, fixed):
        super().__init__()
        self.large, self.small, self.fixed = large, small, fixed
        self.soft_loss = nn.KLDivLoss(log_target=True, reduction="batchmean")
        self.hard_loss = nn.CrossEntropyLoss()

    def forward(self, images, labels, temperature=5.0):
        with torch.no_grad():
            large_logits = self.large(images)
        output = self.small(images)
        goal = nn.functional.log_softmax(large_logits / temperature, dim=-1)
        said = output if self.fixed else large_logits
        guess = nn.functional.log_softmax(said / temperature, dim=-1)
        return self.soft_loss(guess, goal) + self.hard_loss(output, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    large = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 5))
    small = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    large.requires_grad_(False)
    distillation = Distillation(large, small, args.fixed)
    optimizer = torch.optim.Adam(small.parameters(), lr=2e-3)
    patterns = torch.randn(5, 1, 8, 8)
    for step in range(args.steps):
        labels = torch.randint(0, 5, (32,))
        images = patterns[labels] + 0.5 * torch.randn(32, 1, 8, 8)
        loss = distillation(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
