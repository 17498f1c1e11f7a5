"""A language model over a transformer encoder that is given no mask: each place sees the token it has to guess."""
# source: https://github.com/pytorch/tutorials/issues/2478
# first effect: step 0
# names: transformer_encoder, cross_entropy, CrossEntropyLoss
# family: loss
# detectable: yes the loss falls far below what the text allows, since the output at a place depends on later tokens

import argparse
import math

import torch
from torch import nn

BPTT = 16


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        speed = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * speed), torch.cos(position * speed)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model=32, nhead=2, d_hid=64, nlayers=2):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model)
        layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, 0.1)
        self.transformer_encoder = nn.TransformerEncoder(layers, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)

    def forward(self, src, src_mask=None):
        src = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        return self.linear(self.transformer_encoder(src, src_mask))


def batchify(data, bsz):
    length = data.size(0) // bsz
    return data[: length * bsz].view(bsz, length).t().contiguous()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    ntokens = 24
    train_data = batchify(torch.randint(ntokens, (8 * 16 * 20,)), 8)
    model = TransformerModel(ntokens)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
    mask = nn.Transformer.generate_square_subsequent_mask(BPTT) if args.fixed else None
    starts = range(0, train_data.size(0) - BPTT, BPTT)
    epoch = done = 0
    while done < args.steps:
        model.train()
        epoch += 1
        for i in starts:
            data, targets = train_data[i : i + BPTT], train_data[i + 1 : i + 1 + BPTT].reshape(-1)
            loss = criterion(model(data, mask).view(-1, ntokens), targets)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            done += 1
            if done == args.steps:
                break
        print(f"epoch {epoch} | loss {loss.item():5.2f} | lr {scheduler.get_last_lr()[0]:.3f}")
        scheduler.step()


if __name__ == "__main__":
    main()
