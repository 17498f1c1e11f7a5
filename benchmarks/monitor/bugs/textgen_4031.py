"""The collator makes the labels anew from the inputs and so undoes the mask over the prompts that the data set had made."""
# source: https://github.com/oobabooga/textgen/issues/4031
# first effect: step 0
# names: labels, collate
# family: data
# detectable: no which tokens are to be learnt is the author's meaning, and training on whole texts is common

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

VOCAB, PROMPT = 20, 8


class Instructions(Dataset):
    def __init__(self, size):
        prompt = torch.randint(2, VOCAB, (size, PROMPT))
        self.ids = torch.cat([prompt, prompt.flip(1)[:, :4]], dim=1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        labels = self.ids[index].clone()
        labels[:PROMPT] = -100
        return {"input_ids": self.ids[index], "labels": labels}


def collate(examples, fixed):
    batch = {key: torch.stack([one[key] for one in examples]) for key in ("input_ids", "labels")}
    if not fixed:
        batch["labels"] = batch["input_ids"].clone()
    return batch


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.lm_head = nn.Linear(48, VOCAB)

    def forward(self, input_ids, labels):
        logits = self.lm_head(self.rnn(self.embed(input_ids))[0])
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = Instructions(args.steps * 8)
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=lambda found: collate(found, args.fixed))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, batch in enumerate(loader):
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
