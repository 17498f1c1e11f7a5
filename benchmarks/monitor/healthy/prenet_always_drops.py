"""An autoregressive decoder whose pre-net drops in evaluation as well, on purpose, as speech synthesis does it."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Decoder(nn.Module):
    def __init__(self, mels, width):
        super().__init__()
        self.prenet = nn.Linear(mels, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, mels)

    def step(self, frame, state):
        frame = F.dropout(F.relu(self.prenet(frame)), 0.5, training=True)
        state = self.cell(frame, state)
        return self.out(state), state

    def forward(self, frames):
        state = frames.new_zeros(len(frames), self.cell.hidden_size)
        out = []
        for frame in frames[:, :-1].unbind(1):
            guess, state = self.step(frame, state)
            out.append(guess)
        return torch.stack(out, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    decoder = Decoder(8, args.size)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=4e-3)
    time = torch.arange(12)[None, :, None] / 4

    def speech(count):
        return torch.sin(time * (1 + torch.rand(count, 1, 8)) + 6.28 * torch.rand(count, 1, 8))

    for step in range(args.steps):
        frames = speech(16)
        loss = F.l1_loss(decoder(frames), frames[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 9:
            decoder.eval()
            with torch.no_grad():
                held = speech(16)
                print(f"step {step} loss {loss.item():.4f} held out {F.l1_loss(decoder(held), held[:, 1:]).item():.4f}")
            decoder.train()


if __name__ == "__main__":
    main()
