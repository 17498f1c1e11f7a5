"""A wrapper that holds student and teacher: putting it into training mode wakes the teacher's dropout."""
# source: https://github.com/neuralmagic/sparseml/pull/2191
# first effect: step 0
# names: teacher, dropout
# family: mode
# detectable: yes a frozen network that gives the targets drops units at random while it does

import argparse
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def convnet(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Conv2d(width, 2 * width, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(2 * width * 9, 5),
    )


class KDModelWrapper(nn.Module):
    def __init__(self, student, teacher, fixed, temperature=2.0, hardness=0.5):
        super().__init__()
        self.student, self.teacher = student, teacher.requires_grad_(False)
        self.fixed, self.temperature, self.hardness = fixed, temperature, hardness
        self.teacher.eval()

    def train(self, mode=True):
        if not self.fixed:
            return super().train(mode)
        self.training = mode
        self.student.train(mode)
        return self

    def forward(self, images, labels):
        logits = self.student(images)
        with torch.no_grad():
            wanted = self.teacher(images) / self.temperature
        soft = nn.functional.kl_div(
            torch.log_softmax(logits / self.temperature, -1), torch.softmax(wanted, -1), reduction="batchmean"
        )
        hard = nn.functional.cross_entropy(logits, labels)
        return self.hardness * soft * self.temperature**2 + (1 - self.hardness) * hard


def stored_teacher(seed):
    """A file as another run would have left it."""
    with torch.random.fork_rng():
        torch.manual_seed(100 + seed)
        file = io.BytesIO()
        torch.save(convnet(16).state_dict(), file)
    file.seek(0)
    return file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    teacher = convnet(16)
    teacher.load_state_dict(torch.load(stored_teacher(args.seed)))
    wrapped = KDModelWrapper(convnet(8), teacher, args.fixed)
    optimizer = torch.optim.AdamW(wrapped.student.parameters(), lr=2e-3)
    labels = torch.randint(5, (320,))
    images = torch.randn(320, 1, 12, 12)
    images[torch.arange(320), 0, 2 * labels] += 1.0
    loader = DataLoader(TensorDataset(images, labels), 32, shuffle=True)
    for epoch in range(args.steps // len(loader)):
        wrapped.train()
        for batch in loader:
            optimizer.zero_grad()
            loss = wrapped(*batch)
            loss.backward()
            optimizer.step()
        wrapped.eval()
        with torch.no_grad():
            right = (wrapped.student(images).argmax(1) == labels).float().mean().item()
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right:.3f}")


if __name__ == "__main__":
    main()
