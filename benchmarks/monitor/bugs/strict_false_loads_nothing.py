"""The pretrained weights were saved with a `model.` prefix and are loaded with strict=False: not one of them arrives."""
# source: https://github.com/pytorch/examples/issues/1029
# first effect: step 0
# names: load_state_dict
# family: checkpoint
# detectable: yes the load matches no key of the module at all

import argparse
import io

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 32)
        self.lstm = nn.LSTM(32, 32, batch_first=True)
        self.proj = nn.Linear(32, 60)

    def forward(self, ids):
        return self.proj(self.lstm(self.embed(ids))[0])


class LightningLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Encoder()


def batch():
    start = torch.randint(0, 60, (16, 1))
    return (start + 7 * torch.arange(11)) % 60


def fit(model, steps, lr, say):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        ids = batch()
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if say and step % 5 == 0:
            print(f"fine-tune step {step} loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(args.seed + 1)
    # What another program would have left on disk: weights that have learnt a similar task.
    donor = LightningLike()
    with torch.no_grad():
        for p in donor.parameters():
            p.mul_(1.5)
    file = io.BytesIO()
    torch.save({"state_dict": donor.state_dict()}, file)
    file.seek(0)

    torch.manual_seed(args.seed)
    model = Encoder()
    state = torch.load(file)["state_dict"]
    if args.fixed:
        state = {k.removeprefix("model."): v for k, v in state.items()}
        model.load_state_dict(state)
    else:
        model.load_state_dict(state, strict=False)
    fit(model, args.steps, 5e-3, say=True)


main()
