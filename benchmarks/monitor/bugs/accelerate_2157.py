"""A sampler that seeds itself anew for each pass and is never told the epoch: every epoch has the same order."""
# source: https://github.com/huggingface/accelerate/issues/2157
# first effect: step 12
# names: DataLoader, sampler
# family: data
# detectable: yes the batches of a shuffled loader come in the same order in every epoch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler


class SeedableRandomSampler(RandomSampler):
    def __init__(self, source, seed):
        super().__init__(source)
        self.epoch, self.initial_seed = 0, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch + self.initial_seed)
        yield from torch.randperm(self.num_samples, generator=generator).tolist()

    def set_epoch(self, epoch):
        self.epoch = epoch


class Reviews(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randint(60, (count, 15), generator=generator)
        self.stars = ((self.words < 20).sum(1) > 4).float()

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return self.words[index], self.stars[index]


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(60, 16, mode="sum")
        self.hidden, self.out = nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, words):
        return self.out(torch.tanh(self.hidden(self.embedding(words)))).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    dataset = Reviews(288, args.seed)
    sampler = SeedableRandomSampler(dataset, args.seed)
    data_loader = DataLoader(dataset, batch_size=24, sampler=sampler)
    model = Sentiment()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    criterion = nn.BCEWithLogitsLoss()
    for ep in range(args.steps // len(data_loader)):
        if args.fixed:
            sampler.set_epoch(ep)
        total = 0.0
        for words, stars in data_loader:
            optimizer.zero_grad()
            loss = criterion(model(words), stars)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {ep}: {total / len(data_loader):.4f}")


if __name__ == "__main__":
    main()
