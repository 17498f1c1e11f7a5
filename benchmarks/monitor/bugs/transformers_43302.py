"""Mixed precision that was asked for reaches the evaluation alone: the loss of training is computed outside of it."""
# source: https://github.com/huggingface/transformers/pull/43302
# first effect: step 0
# names: autocast, compute_loss
# family: precision
# detectable: yes the same layers run in bfloat16 when they are evaluated and in float32 when they are trained

import argparse
import contextlib

import torch
from torch import nn


class TinyBert(nn.Module):
    def __init__(self, vocabulary=50, width=32, labels=2):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ffn = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.score = nn.Linear(width, labels)

    def forward(self, input_ids, labels):
        h = self.words(input_ids)
        h = self.norm1(h + self.attention(h, h, h, need_weights=False)[0])
        h = self.norm2(h + self.ffn(h))
        logits = self.score(h.mean(1))
        return nn.functional.cross_entropy(logits.float(), labels), logits


class Trainer:
    def __init__(self, model, bf16, fixed):
        self.model, self.bf16, self.fixed = model, bf16, fixed
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def autocast_smart_context_manager(self):
        return torch.autocast("cpu", dtype=torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def compute_loss(self, inputs):
        with self.autocast_smart_context_manager() if self.fixed else contextlib.nullcontext():
            return self.model(**inputs)[0]

    def training_step(self, inputs):
        self.model.train()
        loss = self.compute_loss(inputs)
        loss.backward()
        self.optimizer.step()
        self.model.zero_grad()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, batches):
        self.model.eval()
        right = total = 0
        for inputs in batches:
            with self.autocast_smart_context_manager():
                logits = self.model(**inputs)[1]
            right += (logits.argmax(-1) == inputs["labels"]).sum().item()
            total += len(logits)
        return right / total


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        ids = torch.randint(50, (16, 10), generator=generator)
        yield {"input_ids": ids, "labels": (ids < 25).sum(1).gt(4).long()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    trainer = Trainer(TinyBert(), bf16=True, fixed=args.fixed)
    held_out = list(batches(4, args.seed + 1000))
    print(f"before: accuracy {trainer.evaluate(held_out):.3f}")
    for step, inputs in enumerate(batches(args.steps, args.seed), 1):
        loss = trainer.training_step(inputs)
        if step % 20 == 0:
            print(f"{step}: loss {loss:.4f}, accuracy {trainer.evaluate(held_out):.3f}")


if __name__ == "__main__":
    main()
