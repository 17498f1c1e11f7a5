"""A model with an output layer of its own is loaded, and then its output is tied to the embeddings all the same."""
# source: https://github.com/NVIDIA-NeMo/Automodel/issues/2941
# first effect: step 0
# names: lm_head, embed_tokens
# family: init
# detectable: yes weights that were loaded are replaced by others before the first step

import argparse
import dataclasses
import os
import tempfile

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    vocab_size: int = 36
    hidden_size: int = 32
    layers: int = 2
    tie_word_embeddings: bool = False


class Mixer(nn.Module):
    """A gated recurrence over time in place of attention."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = x + self.gru(self.norm(x))[0]
        return x + self.mlp(x)


class NemotronForCausalLM(nn.Module):
    _nemo_tied_weights_keys = ("lm_head.weight",)

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Mixer(config.hidden_size) for _ in range(config.layers))
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        h = self.embed_tokens(input_ids)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(h)


def tie_weights_nemo(model, fixed):
    wanted = model.config.tie_word_embeddings if fixed else bool(model._nemo_tied_weights_keys)
    if wanted:
        model.lm_head.weight = model.embed_tokens.weight


def from_pretrained(path, config, fixed):
    model = NemotronForCausalLM(config)
    model.load_state_dict(torch.load(path))
    tie_weights_nemo(model, fixed)
    return model


def publish(path, config, seed):
    """What another run would have left."""
    with torch.random.fork_rng():
        torch.manual_seed(500 + seed)
        model = NemotronForCausalLM(config)
        nn.init.normal_(model.embed_tokens.weight, std=0.3)
        torch.save(model.state_dict(), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    config = Config()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        publish(path, config, args.seed)
        model = from_pretrained(path, config, args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        first = torch.randint(config.vocab_size, (16, 1))
        tokens = (first + torch.tensor([0, 1, 3, 6, 10, 15, 21, 28, 36])) % config.vocab_size
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"step {step} | loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
