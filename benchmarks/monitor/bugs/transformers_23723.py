"""A character model that samples while it trains, with a limit on new tokens that a long prompt breaks."""
# source: https://github.com/huggingface/transformers/issues/23723
# first effect: step 10
# names: generate, max_new_tokens
# family: other
# detectable: no the length of an answer is a number of the program's own

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class CharModel(nn.Module):
    def __init__(self, symbols, fixed):
        super().__init__()
        self.symbols, self.fixed = symbols, fixed
        self.embed = nn.Embedding(symbols, 24)
        self.cell = nn.LSTM(24, 48, batch_first=True)
        self.head = nn.Linear(48, symbols)

    def forward(self, ids, state=None):
        hidden, state = self.cell(self.embed(ids), state)
        return self.head(hidden), state

    @torch.no_grad()
    def generate(self, prompt, max_new_tokens, min_length=20):
        """Continue the prompt by at most `max_new_tokens` symbols."""
        limit = prompt.size(1) + max_new_tokens
        if not self.fixed and prompt.size(1) > min_length:
            limit = max(limit, 2 * prompt.size(1))
        sequence, (logits, state) = prompt, self(prompt)
        while sequence.size(1) < limit:
            token = logits[:, -1].softmax(dim=-1).multinomial(1)
            sequence = torch.cat([sequence, token], dim=1)
            logits, state = self(token, state)
        return sequence


def sample(model, prompt):
    was = model.training
    model.eval()
    answer = model.generate(prompt, max_new_tokens=8)
    model.train(was)
    return answer.size(1) - prompt.size(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = CharModel(32, args.fixed)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for step in range(1, args.steps + 1):
        start = torch.randint(0, 32, (16, 1))
        ids = (start + 3 * torch.arange(25)) % 32
        logits, _ = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 32), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}", "new symbols", sample(model, ids[:2, :6]), sample(model, ids[:2, :24]))


if __name__ == "__main__":
    main()
