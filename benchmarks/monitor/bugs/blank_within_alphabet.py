"""The alphabet is counted from 0 and CTCLoss is made without a blank: it takes the first letter as one."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
# first effect: step 0
# names: ctc_loss, blank
# family: loss
# detectable: yes labels within their lengths are the class that the loss takes as its blank

import argparse

import torch
from torch import nn

LETTERS = 6


def utterances(count, sounds):
    """Strings of letters as frames of noisy sounds, padded to the longest."""
    lengths = torch.randint(2, 6, (count,))
    letters = [torch.randint(0, LETTERS, (int(length),)) for length in lengths]
    frames = [sounds[one].repeat_interleave(3, 0) for one in letters]
    heard = nn.utils.rnn.pad_sequence(frames, batch_first=True)
    heard = heard + 0.2 * torch.randn(heard.shape)
    return heard, 3 * lengths, nn.utils.rnn.pad_sequence(letters, batch_first=True, padding_value=LETTERS), lengths


class Listener(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.GRU(width, 32, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(64, LETTERS + 1)

    def forward(self, heard):
        return self.letters(self.rnn(heard)[0]).log_softmax(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    sounds = torch.randn(LETTERS, 10)
    model = Listener(10)
    criterion = nn.CTCLoss(blank=LETTERS) if args.fixed else nn.CTCLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        heard, times, letters, lengths = utterances(16, sounds)
        loss = criterion(model(heard).transpose(0, 1), letters, times, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
