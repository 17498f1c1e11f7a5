"""Samples are divided over the processes by a sampler and once more by the library that prepares the loader."""
# source: https://github.com/huggingface/transformers/issues/34365
# first effect: step 0
# names: sampler, loader
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes an epoch over both ranks ends when half of the samples have been seen

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.mix = nn.Conv1d(16, 24, 3, padding=1)
        self.out = nn.Linear(24, 5)

    def forward(self, tokens):
        return self.out(torch.relu(self.mix(self.embed(tokens).transpose(1, 2))).transpose(1, 2))


def get_train_dataloader(dataset, accelerator, fixed):
    if fixed:
        loader = DataLoader(dataset, batch_size=8, shuffle=True)
    else:
        sampler = DistributedSampler(dataset, accelerator.num_processes, accelerator.process_index)
        loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    return accelerator.prepare(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    accelerator = Accelerator(cpu=True)
    tokens = torch.randint(40, (128, 10), generator=torch.Generator().manual_seed(args.seed))
    labels = (tokens + tokens.roll(1, 1)) % 5
    model, optimizer = Tagger(), None
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = get_train_dataloader(TensorDataset(tokens, labels), accelerator, args.fixed)
    step, epoch = 0, 0
    while step < args.steps:
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        for batch, target in loader:
            loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), target.flatten())
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == args.steps:
                break
        epoch += 1
        accelerator.print(f"epoch {epoch}: step {step}, loss {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
