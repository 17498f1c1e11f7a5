"""Recognition with CTC: a bidirectional GRU over frames, log_softmax, lengths of inputs and targets, greedy decoding."""

import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    """Each symbol is held for two to four frames of its own spectrum."""

    def __init__(self, n, seed, symbols=6, bands=10):
        g = torch.Generator().manual_seed(seed)
        spectra = 2 * torch.randn(symbols + 1, bands, generator=torch.Generator().manual_seed(7))
        self.items = []
        for _ in range(n):
            labels = torch.randint(1, symbols + 1, (int(torch.randint(3, 6, (), generator=g)),), generator=g)
            frames = []
            for s in labels:
                hold = int(torch.randint(2, 5, (), generator=g))
                frames.append(spectra[s] + 0.3 * torch.randn(hold, bands, generator=g))
                frames.append(0.3 * torch.randn(1, bands, generator=g))
            self.items.append((torch.cat(frames), labels))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    frames, labels = zip(*batch)
    return (
        pad_sequence(frames, batch_first=True),
        torch.cat(labels),
        torch.tensor([len(f) for f in frames]),
        torch.tensor([len(t) for t in labels]),
    )


class Recognizer(nn.Module):
    def __init__(self, bands, hidden, symbols):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(bands, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(0.1))
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, symbols + 1)

    def forward(self, x):
        return self.out(self.rnn(self.front(x))[0]).log_softmax(-1)


def greedy(row):
    best, answer, last = row.argmax(-1).tolist(), [], 0
    for s in best:
        if s not in (0, last):
            answer.append(s)
        last = s
    return answer


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--size", type=int, default=32)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    loader = DataLoader(Utterances(160, a.seed), batch_size=16, shuffle=True, collate_fn=collate)
    model = Recognizer(10, a.size, 6)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    step = 0
    while step < a.steps:
        for x, y, x_len, y_len in loader:
            model.train()
            log_probs = model(x)
            loss = ctc(log_probs.transpose(0, 1), y, x_len, y_len)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            step += 1
            if step % 10 == 0:
                model.eval()
                with torch.no_grad():
                    said = greedy(model(x)[0, : x_len[0]])
                print(f"step {step} loss {loss.item():.4f} said {said} truth {y[: y_len[0]].tolist()}")
            if step == a.steps:
                return


main()
