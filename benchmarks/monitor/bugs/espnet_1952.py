"""Recognition is scored by a search that puts its decoder into evaluation mode; the encoder goes on dropping."""
# source: https://github.com/espnet/espnet/pull/1952
# first effect: step 10
# names: encoder
# family: mode
# detectable: yes parts of one model are in different modes while it is evaluated, and dropout is at work there

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(10, 24, 3, padding=1)
        self.dropout = nn.Dropout(0.2)
        self.rnn = nn.GRU(24, 24, batch_first=True)

    def forward(self, speech):
        return self.rnn(self.dropout(F.relu(self.conv(speech))).transpose(1, 2))[0]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(12, 24), nn.Dropout(0.2)
        self.cell, self.out = nn.GRUCell(48, 24), nn.Linear(24, 12)

    def forward(self, hidden, state, token):
        context = (torch.softmax((hidden @ state.unsqueeze(-1)), 1) * hidden).sum(1)
        state = self.cell(torch.cat([self.dropout(self.embed(token)), context], 1), state)
        return self.out(state), state


class Asr(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, speech, text):
        hidden = self.encoder(speech)
        state, token, loss = hidden[:, -1], torch.zeros(len(text), dtype=torch.long), 0.0
        for position in range(text.shape[1]):
            logits, state = self.decoder(hidden, state, token)
            token = text[:, position]
            loss = loss + F.cross_entropy(logits, token)
        return loss / text.shape[1]


class BeamSearch(nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, hidden, length):
        state, token, found = hidden[:, -1], torch.zeros(len(hidden), dtype=torch.long), []
        for _ in range(length):
            logits, state = self.decoder(hidden, state, token)
            token = logits.argmax(1)
            found.append(token)
        return torch.stack(found, 1)


def utterances(count, generator):
    text = torch.randint(1, 12, (count, 4), generator=generator)
    codes = torch.sin(torch.arange(1, 13).view(-1, 1) * torch.arange(1, 11) / 3)
    speech = codes[text].repeat_interleave(3, 1).transpose(1, 2)
    return speech + 0.1 * torch.randn(speech.shape, generator=generator), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = torch.Generator().manual_seed(args.seed)
    model = Asr()
    search = BeamSearch(model.decoder)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.95, eps=1e-7)
    held_out = utterances(32, data)
    for step in range(args.steps):
        model.train()
        loss = model(*utterances(16, data))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 10 == 9:
            (model if args.fixed else search).eval()
            with torch.no_grad():
                found = search(model.encoder(held_out[0]), 4)
            errors = (found != held_out[1]).float().mean().item()
            print(f"step {step + 1}: loss {loss.item():.4f}, errors {errors:.4f}")


if __name__ == "__main__":
    main()
