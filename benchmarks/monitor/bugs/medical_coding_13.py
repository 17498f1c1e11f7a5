"""Codes for clinical notes: the attention mask is padded with the number of the padding token, which is one."""
# source: https://github.com/JoakimEdin/medical-coding-reproducibility/issues/13
# first effect: step 0
# names: attention_mask, encoder
# family: data
# detectable: yes the notes of a batch end in runs of one token and the mask, which is there to hide them, is one everywhere

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD = 1


class Notes(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(4, 20, (count,), generator=generator)
        self.notes = [torch.randint(2, 60, (length,), generator=generator) for length in lengths.tolist()]
        self.codes = [torch.stack([(note % 7 == code).sum() > 1 for code in range(7)]).float() for note in self.notes]

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, index):
        return self.notes[index], self.codes[index]


def seq2batch(sequences, value):
    return nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=value)


class Collate:
    def __init__(self, fixed):
        self.fixed = fixed

    def __call__(self, batch):
        notes, codes = zip(*batch, strict=True)
        mask = seq2batch([torch.ones_like(note) for note in notes], 0 if self.fixed else PAD)
        return {"input_ids": seq2batch(notes, PAD), "attention_mask": mask}, torch.stack(codes)


class Plm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.label_queries = nn.Linear(24, 7)
        self.out = nn.Linear(24, 7)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        scores = self.label_queries(hidden).masked_fill(attention_mask.unsqueeze(-1) == 0, -1e4)
        pooled = torch.softmax(scores, 1).transpose(1, 2) @ hidden
        return (pooled * self.out.weight).sum(-1) + self.out.bias


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Notes(96, args.seed), 8, shuffle=True, collate_fn=Collate(args.fixed))
    model = Plm()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.steps // len(loader)):
        for inputs, codes in loader:
            optimizer.zero_grad()
            loss = criterion(model(**inputs), codes)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
