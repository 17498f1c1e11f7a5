"""Outputs of the teacher are computed once, over a loader that shuffles, and used with the batches of a later pass."""
# source: https://github.com/haitongli/knowledge-distillation-pytorch/pull/16
# first effect: step 0
# names: teacher_outputs
# family: data
# detectable: no numbers that the program keeps itself are not known to belong to other samples

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def network(width):
    return nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 5))


def fetch_teacher_outputs(teacher, loader):
    teacher.eval()
    with torch.no_grad():
        return [teacher(x) for x, _ in loader]


def loss_fn_kd(outputs, labels, teacher_outputs, alpha=0.7, T=3.0):
    soft = nn.functional.kl_div(
        torch.log_softmax(outputs / T, 1), torch.softmax(teacher_outputs / T, 1), reduction="batchmean"
    )
    return soft * alpha * T * T + nn.functional.cross_entropy(outputs, labels) * (1 - alpha)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(256, 12)
    loader = DataLoader(TensorDataset(x, x[:, :5].argmax(1)), 32, shuffle=True)
    teacher, student = network(64), network(16)
    kept = fetch_teacher_outputs(teacher, loader)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    for epoch in range(args.steps // len(loader)):
        student.train()
        for i, (inputs, labels) in enumerate(loader):
            with torch.no_grad():
                wanted = teacher(inputs) if args.fixed else kept[i]
            loss = loss_fn_kd(student(inputs), labels, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"Epoch {epoch + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
