"""The padding has the number 0, `pad or eos` takes the other one, and the mask of every text is all ones: real tokens attend to padding."""
# source: https://github.com/NVIDIA-NeMo/Automodel/pull/3704
# first effect: step 0
# names: attention_mask, mask
# family: data
# detectable: yes a mask that masks nothing comes with labels that are masked in the padded tail of the same rows

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

VOCAB, LONGEST, PAD, EOS = 32, 16, 0, 1


def package(words, fixed):
    ids = F.pad(words, (0, LONGEST - len(words)), value=PAD)
    searched = PAD if fixed else PAD or EOS
    content = LONGEST
    while content and ids[content - 1] == searched:
        content -= 1
    labels = F.pad(words, (0, LONGEST - len(words)), value=-100)
    return {"input_ids": ids, "attention_mask": (torch.arange(LONGEST) < content).long(), "labels": labels}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.position = nn.Parameter(torch.randn(LONGEST, 32) * 0.1)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids) + self.position
        return self.head(self.block(hidden, src_key_padding_mask=attention_mask == 0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    texts = []
    for _ in range(args.steps * 8):
        length = int(torch.randint(4, LONGEST - 1, ()))
        words = torch.randint(2, VOCAB, (length,)).sort().values
        texts.append(package(torch.cat([words, torch.tensor([EOS])]), args.fixed))
    loader = DataLoader(texts, batch_size=8, shuffle=True)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step, batch in enumerate(loader):
        logits = model(batch["input_ids"], batch["attention_mask"])
        loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
