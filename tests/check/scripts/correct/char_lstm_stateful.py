import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=512, layers=2, p=0.3):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.emb = nn.Embedding(vocab, 64)
        self.lstm = nn.LSTM(64, hidden, layers, dropout=p, batch_first=True)
        self.drop = nn.Dropout(p)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x, state):
        out, state = self.lstm(self.emb(x), state)
        return self.fc(self.drop(out).contiguous().view(-1, self.hidden)), state

    def init_hidden(self, n, device):
        w = next(self.parameters())
        return (w.new_zeros(self.layers, n, self.hidden), w.new_zeros(self.layers, n, self.hidden))


def batches(arr, n, length):
    total = arr.size(0) // (n * length) * n * length
    arr = arr[: total + 1]
    x = arr[:-1].view(n, -1)
    y = arr[1:].view(n, -1)
    for i in range(0, x.size(1), length):
        yield x[:, i : i + length], y[:, i : i + length]


text = open("input.txt", encoding="utf-8").read()
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
cut = int(0.9 * len(data))
train_data, val_data = data[:cut], data[cut:]
device = torch.device("cuda")
net = CharRNN(128).to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
crit = nn.CrossEntropyLoss()
n, length = 128, 100
for epoch in range(20):
    net.train()
    h = net.init_hidden(n, device)
    for x, y in batches(train_data, n, length):
        x, y = x.to(device), y.to(device)
        h = tuple(e.detach() for e in h)
        net.zero_grad()
        out, h = net(x, h)
        loss = crit(out, y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        opt.step()
    net.eval()
    vh = net.init_hidden(n, device)
    total, count = 0.0, 0
    with torch.no_grad():
        for x, y in batches(val_data, n, length):
            out, vh = net(x.to(device), vh)
            total += crit(out, y.to(device).reshape(-1)).item()
            count += 1
    print(epoch, total / max(count, 1))
