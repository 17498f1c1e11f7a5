"""A resumed schedule is set to the number of the epoch, and it counts optimizer steps: warm-up begins once more."""
# source: https://github.com/vllm-project/speculators/pull/900
# first effect: step 24
# names: LambdaLR, lr
# family: checkpoint
# detectable: yes after a load the rate is at an earlier place of its schedule than where the steps of the optimizer are

import argparse
import os
import tempfile

import torch
from torch import nn

VOCABULARY = 30


class Drafter(nn.Module):
    """Guesses the next token from the hidden state of a large model and the last token."""

    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, hidden, last):
        return self.head(self.norm(torch.tanh(self.mix(torch.cat([hidden, self.embed(last)], dim=-1)))))


def warmup_linear(optimizer, warmup, total, last_epoch=-1):
    def factor(step):
        return (step + 1) / warmup if step < warmup else max(0.0, (total - step) / (total - warmup))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor, last_epoch)


class Trainer:
    def __init__(self, args, folder, resume):
        self.args, self.file = args, os.path.join(folder, "state.pt")
        self.model = Drafter()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.epoch = self.global_step = 0
        seed = -1
        if resume:
            saved = torch.load(self.file)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.epoch, self.global_step = saved["epoch"] + 1, saved["global_step"]
            seed = self.global_step - 1 if args.fixed else saved["epoch"]
        self.scheduler = warmup_linear(self.optimizer, 8, args.steps, seed)
        self.table = torch.randn(VOCABULARY, 24, generator=torch.Generator().manual_seed(7))

    def train_epoch(self):
        for _ in range(8):
            last = torch.randint(VOCABULARY, (24,))
            hidden = self.table[last] + 0.2 * torch.randn(24, 24)
            loss = nn.functional.cross_entropy(self.model(hidden, last), (3 * last + 1) % VOCABULARY)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.global_step += 1
        print(f"epoch {self.epoch}: loss {loss.item():.3f}, rate {self.scheduler.get_last_lr()[0]:.2e}")

    def save(self):
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**states, "epoch": self.epoch, "global_step": self.global_step}, self.file)

    def run(self, until):
        while self.epoch < until:
            self.train_epoch()
            self.save()
            self.epoch += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=56)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(args, folder, resume=False).run(3)
        Trainer(args, folder, resume=True).run(args.steps // 8)


if __name__ == "__main__":
    main()
