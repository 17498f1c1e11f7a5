"""The trained head of a checkpoint lies under another name than the one that is used: it is left out, and the head starts at random again."""
# source: https://github.com/huggingface/sentence-transformers/issues/3980
# first effect: step 12
# names: score
# family: checkpoint
# detectable: yes a load leaves out a tensor of the file and leaves one of the model as it was made

import argparse
import io

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(60, 24)
        self.layer = nn.Linear(24, 24)
        self.score = nn.Linear(24, 1)

    def forward(self, pairs):
        return self.score(torch.tanh(self.layer(self.embed(pairs)))).squeeze(1)


def renamed(state):
    return {name.replace("score.", "score.modules_to_save.default."): value for name, value in state.items()}


def restored(state):
    return {name.replace("modules_to_save.default.", ""): value for name, value in state.items()}


def train(model, steps, words):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        pairs = torch.randint(0, 60, (24, 8))
        loss = F.binary_cross_entropy_with_logits(model(pairs), (words[pairs].sum(1) > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    words = torch.randn(60)
    model = Encoder()
    train(model, 12, words)
    file = io.BytesIO()
    torch.save(renamed(model.state_dict()), file)
    file.seek(0)
    state = torch.load(file)
    again = Encoder()
    again.load_state_dict(restored(state) if args.fixed else state, strict=False)
    train(again, max(1, args.steps - 12), words)


if __name__ == "__main__":
    main()
