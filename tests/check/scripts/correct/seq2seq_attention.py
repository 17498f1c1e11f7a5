import random
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, SOS, EOS = 0, 1, 2


class Pairs(Dataset):
    def __init__(self, n=20000, vocab=200, longest=20):
        g = random.Random(7)
        self.rows = [[g.randrange(3, vocab) for _ in range(g.randrange(3, longest))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return torch.tensor(row + [EOS]), torch.tensor([SOS] + row[::-1] + [EOS])


def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]), reverse=True)
    src, trg = zip(*batch)
    lengths = torch.tensor([len(s) for s in src])
    return pad_sequence(src, padding_value=PAD), lengths, pad_sequence(trg, padding_value=PAD)


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, bidirectional=True)
        self.fc = nn.Linear(2 * hid, hid)

    def forward(self, src, lengths):
        packed = pack_padded_sequence(self.emb(src), lengths)
        out, h = self.rnn(packed)
        out, _ = pad_packed_sequence(out)
        h = torch.tanh(self.fc(torch.cat((h[-2], h[-1]), dim=1)))
        return out, h


class Attention(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.attn = nn.Linear(3 * hid, hid)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, h, enc, mask):
        n = enc.shape[0]
        h = h.unsqueeze(1).repeat(1, n, 1)
        enc = enc.permute(1, 0, 2)
        score = self.v(torch.tanh(self.attn(torch.cat((h, enc), dim=2)))).squeeze(2)
        score = score.masked_fill(mask == 0, -1e10)
        return F.softmax(score, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.attention = Attention(hid)
        self.rnn = nn.GRU(2 * hid + emb, hid)
        self.out = nn.Linear(3 * hid + emb, vocab)

    def forward(self, tok, h, enc, mask):
        e = self.emb(tok.unsqueeze(0))
        a = self.attention(h, enc, mask).unsqueeze(1)
        w = torch.bmm(a, enc.permute(1, 0, 2)).permute(1, 0, 2)
        o, hn = self.rnn(torch.cat((e, w), dim=2), h.unsqueeze(0))
        p = self.out(torch.cat((o.squeeze(0), w.squeeze(0), e.squeeze(0)), dim=1))
        return p, hn.squeeze(0)


class Seq2Seq(nn.Module):
    def __init__(self, enc, dec):
        super().__init__()
        self.enc, self.dec = enc, dec

    def forward(self, src, lengths, trg, ratio=0.5):
        out, h = self.enc(src, lengths)
        mask = (src != PAD).permute(1, 0)[:, : out.shape[0]]
        tok = trg[0]
        outs = []
        for t in range(1, trg.shape[0]):
            p, h = self.dec(tok, h, out, mask)
            outs.append(p)
            tok = trg[t] if random.random() < ratio else p.argmax(1)
        return torch.stack(outs)


def main():
    torch.manual_seed(1)
    random.seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Pairs(), batch_size=128, shuffle=True, collate_fn=collate, num_workers=2, pin_memory=True)
    valid = DataLoader(Pairs(1000), batch_size=128, collate_fn=collate)
    model = Seq2Seq(Encoder(200, 128, 256), Decoder(200, 128, 256)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    best = float("inf")
    for epoch in range(10):
        model.train()
        for src, lengths, trg in loader:
            src, trg = src.to(device, non_blocking=True), trg.to(device, non_blocking=True)
            optimizer.zero_grad()
            output = model(src, lengths, trg)
            loss = criterion(output.reshape(-1, output.shape[-1]), trg[1:].reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        total = 0.0
        with torch.no_grad():
            for src, lengths, trg in valid:
                src, trg = src.to(device), trg.to(device)
                output = model(src, lengths, trg, 0)
                total += criterion(output.reshape(-1, output.shape[-1]), trg[1:].reshape(-1)).item()
        if total < best:
            best = total
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
