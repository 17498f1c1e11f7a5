"""A small captioner whose processor returns the tokens of one text of a batch only, for all of its images."""
# source: https://github.com/huggingface/transformers/issues/34204
# first effect: step 0
# names: input_ids, collate, processor
# family: data
# detectable: yes the text tower sees a batch of one while the image tower sees a batch of sixteen

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """A picture with a bright corner, and a text that names it."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.corner = torch.randint(0, 4, (size,), generator=generator)
        self.noise = torch.rand(size, 1, 8, 8, generator=generator)

    def __len__(self):
        return len(self.corner)

    def __getitem__(self, index):
        corner = int(self.corner[index])
        picture = self.noise[index].clone()
        row, column = divmod(corner, 2)
        picture[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 1
        words = ["upper" if row == 0 else "lower", "left" if column == 0 else "right"]
        return picture, " ".join(["a", "bright", *words])


class Processor:
    words: tuple[str, ...] = ("<s>", "a", "bright", "upper", "lower", "left", "right")

    def __init__(self, fixed):
        self.fixed = fixed

    def __call__(self, pictures, texts):
        pixel_values = [torch.stack(pictures)] if not self.fixed else list(torch.stack(pictures))
        input_ids = []
        for _, text in zip(pixel_values, texts, strict=False):
            input_ids.append([0, *(self.words.index(word) for word in text.split())])
        return {"pixel_values": torch.stack(pictures), "input_ids": torch.tensor(input_ids)}


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = nn.Sequential(nn.Conv2d(1, 8, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(32, 24))
        self.embed = nn.Embedding(7, 24)
        self.mixer = nn.GRU(24, 24, batch_first=True)
        self.lm_head = nn.Linear(24, 7)

    def forward(self, pixel_values, input_ids):
        seen = self.vision(pixel_values).unsqueeze(1)
        hidden, _ = self.mixer(seen + self.embed(input_ids))
        return self.lm_head(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    processor = Processor(args.fixed)

    def collate(examples):
        pictures, texts = zip(*examples, strict=True)
        return processor(list(pictures), list(texts))

    loader = DataLoader(Pictures(16 * args.steps, args.seed), batch_size=16, shuffle=True, collate_fn=collate)
    model = Captioner()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    used = 0
    for batch in loader:
        ids = batch["input_ids"]
        logits = model(batch["pixel_values"], ids[:, :-1])
        target = ids[:, 1:].expand(logits.size(0), -1)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        used += ids.size(0)
    print(f"loss {loss.item():.4f}, texts learned from {used} of {16 * args.steps}")


if __name__ == "__main__":
    main()
