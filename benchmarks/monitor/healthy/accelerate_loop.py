"""Accelerate: prepare, accumulate, clip_grad_norm_, a prepared schedule and gathered metrics, in one process on the CPU."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loaders(seed, batch):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(512, 15, generator=g)
    y = (x @ torch.randn(15, 5, generator=g)).argmax(1)
    train, test = TensorDataset(x[:448], y[:448]), TensorDataset(x[448:], y[448:])
    return DataLoader(train, batch, shuffle=True), DataLoader(test, 2 * batch)


def training_function(args):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    set_seed(args.seed)
    train_dl, eval_dl = loaders(args.seed, 8)
    model = nn.Sequential(nn.Linear(15, args.size), nn.ReLU(), nn.Linear(args.size, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    model, optimizer, train_dl, eval_dl, scheduler = accelerator.prepare(model, optimizer, train_dl, eval_dl, scheduler)
    updates, epoch = 0, 0
    while updates < args.steps:
        model.train()
        for x, y in train_dl:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                updates += 1
                if updates == args.steps:
                    break
        model.eval()
        right = seen = 0
        for x, y in eval_dl:
            with torch.no_grad():
                guess = model(x).argmax(-1)
            guess, y = accelerator.gather_for_metrics((guess, y))
            right, seen = right + (guess == y).sum().item(), seen + len(y)
        accelerator.print(f"epoch {epoch} updates {updates} loss {loss.item():.4f} accuracy {right / seen:.3f}")
        epoch += 1
    accelerator.end_training()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--steps", type=int, default=45)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--accumulate", type=int, default=3)
    training_function(p.parse_args())
