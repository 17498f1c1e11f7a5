"""A policy wrapped for several ranks is called through the module inside the wrapper: gradients stay where they are."""
# source: https://github.com/jingyaogong/minimind/issues/853
# first effect: step 0
# names: DistributedDataParallel, module, policy
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the replicas' weights drift apart from the first step on

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, GROUP, LENGTH = 16, 6, 8


class MiniMind(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        return self.lm_head(self.gru(self.embed(ids))[0])


@torch.no_grad()
def rollout(model, prompts):
    ids = prompts.repeat_interleave(GROUP, 0)
    for _ in range(LENGTH):
        probabilities = torch.softmax(model(ids)[:, -1], dim=-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1)], dim=1)
    return ids


def rewards(ids):
    return (ids[:, 1:] == (ids[:, :-1] + 1) % VOCABULARY).float().mean(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(MiniMind())
    torch.manual_seed(100 * args.seed + dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        unwrapped = model.module
        prompts = torch.randint(VOCABULARY, (4, 2))
        ids = rollout(unwrapped, prompts)
        grouped = rewards(ids).view(-1, GROUP)
        advantages = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
        policy = model if args.fixed else unwrapped
        logits = policy(ids[:, :-1])
        token_log_probs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None]).squeeze(-1)[:, 1:]
        ratio = torch.exp(token_log_probs - token_log_probs.detach())
        loss = -(ratio * advantages.view(-1, 1)).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(f"{step}: reward {grouped.mean().item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
