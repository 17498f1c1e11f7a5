"""The optimizer was not handed to `prepare`: under `accumulate` it steps at every micro-batch, each with a quarter of a loss."""
# source: https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
# first effect: step 0
# names: accumulate, step, accelerator
# family: gradients
# detectable: yes steps are done in passes of which Accelerate says that gradients are still being gathered

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    x = torch.randn(256, 14)
    data = TensorDataset(x, (x[:, :7] * x[:, 7:]).sum(1))
    model = nn.Sequential(nn.Linear(14, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    model, loader = accelerator.prepare(model, DataLoader(data, batch_size=16, shuffle=True))
    if args.fixed:
        optimizer = accelerator.prepare(optimizer)
    for epoch in range(args.steps // 16):
        for features, target in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(features).squeeze(1), target)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
