"""Direct preference optimisation: a policy is tuned against a frozen copy of itself on chosen and rejected answers."""

import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F


class TinyLM(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def sequence_logp(model, ids, prompt):
    logp = model(ids[:, :-1]).log_softmax(-1)
    token = logp.gather(2, ids[:, 1:, None]).squeeze(2)
    return token[:, prompt - 1 :].sum(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--beta", type=float, default=0.1)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    vocab, prompt, answer = 12, 4, 4
    policy = TinyLM(vocab, a.size)
    reference = copy.deepcopy(policy)
    reference.eval()
    for p in reference.parameters():
        p.requires_grad_(False)
    opt = torch.optim.RMSprop(policy.parameters(), lr=2e-3)
    for step in range(a.steps):
        q = torch.randint(0, vocab, (16, prompt))
        chosen = torch.cat([q, q.flip(1)[:, :answer]], 1)
        rejected = torch.cat([q, torch.randint(0, vocab, (16, answer))], 1)
        both = torch.cat([chosen, rejected])
        with torch.no_grad():
            ref_c, ref_r = sequence_logp(reference, both, prompt).chunk(2)
        pol_c, pol_r = sequence_logp(policy, both, prompt).chunk(2)
        margin = a.beta * ((pol_c - ref_c) - (pol_r - ref_r))
        loss = -F.logsigmoid(margin).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        opt.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} preferred {(margin > 0).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
