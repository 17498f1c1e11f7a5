"""GRU language model with truncated backpropagation: the hidden state is carried over and detached between chunks."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description="GRU, truncated BPTT")
parser.add_argument("--seed", type=int, default=1111)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=48)
parser.add_argument("--bptt", type=int, default=16)
parser.add_argument("--clip", type=float, default=0.25)
args = parser.parse_args()
torch.manual_seed(args.seed)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data[: nbatch * bsz].view(bsz, -1).t().contiguous()


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


class RNNModel(nn.Module):
    def __init__(self, ntoken, nhid):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(ntoken, nhid)
        self.rnn = nn.GRU(nhid, nhid, 2, dropout=0.2)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid = nhid
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, inp, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(inp)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden

    def init_hidden(self, bsz):
        return next(self.parameters()).new_zeros(2, bsz, self.nhid)


ntokens = 20
walk = torch.cumsum(torch.randint(-1, 2, (4000,)) + 1, 0) % ntokens
train_data, val_data = batchify(walk[:3600], 8), batchify(walk[3600:], 4)
model = RNNModel(ntokens, args.size)
criterion = nn.CrossEntropyLoss()
lr = 2.0
best_val_loss = None
optimizer = torch.optim.SGD(model.parameters(), lr=lr)


def evaluate(source):
    model.eval()
    total, hidden = 0.0, model.init_hidden(4)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, args.bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


done = 0
for epoch in range(1, 1000):
    model.train()
    hidden = model.init_hidden(8)
    for i in range(0, train_data.size(0) - 1, args.bptt):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        done += 1
        if done % 10 == 0:
            print(f"| epoch {epoch} | {done} updates | lr {lr:.2f} | loss {loss.item():.3f}")
        if done >= args.steps:
            break
    val_loss = evaluate(val_data)
    print(f"| end of epoch {epoch} | valid loss {val_loss:.3f}")
    if best_val_loss is None or val_loss < best_val_loss:
        best_val_loss = val_loss
    else:
        lr /= 4.0
        for group in optimizer.param_groups:
            group["lr"] = lr
    if done >= args.steps:
        break
