#!/usr/bin/env python
"""Skip-gram with negative sampling, exported from a notebook: cells, globals, re-used names, a loop run twice."""

# In[1]:

import argparse
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=16)
ARGS, _ = parser.parse_known_args()
torch.manual_seed(ARGS.seed)

# In[2]:

corpus = []
for k in range(300):
    topic = int(torch.randint(0, 4, ()))
    corpus.append([f"w{topic}_{int(i)}" for i in torch.randint(0, 8, (8,))])
counts = Counter(w for s in corpus for w in s)
itos = sorted(counts)
stoi = {w: i for i, w in enumerate(itos)}
len(itos)

# In[3]:

pairs = torch.tensor(
    [
        (stoi[s[i]], stoi[s[j]])
        for s in corpus
        for i in range(len(s))
        for j in range(max(0, i - 2), min(len(s), i + 3))
        if i != j
    ]
)
freq = torch.tensor([counts[w] for w in itos], dtype=torch.float) ** 0.75

# In[4]:

center = nn.Embedding(len(itos), ARGS.size)
context = nn.Embedding(len(itos), ARGS.size)
nn.init.zeros_(context.weight)
opt = torch.optim.Adam(list(center.parameters()) + list(context.parameters()), lr=0.03)

# In[5]:

losses = []


def train(n):
    for _ in range(n):
        batch = pairs[torch.randint(0, len(pairs), (256,))]
        noise = torch.multinomial(freq, 256 * 4, replacement=True).view(256, 4)
        v = center(batch[:, 0])
        good = (v * context(batch[:, 1])).sum(1)
        bad = (v.unsqueeze(1) * context(noise)).sum(2)
        loss = -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"{len(losses)} steps, loss {losses[-1]:.4f}")


train(ARGS.steps // 2)

# In[6]:

opt.param_groups[0]["lr"] = 0.01
train(ARGS.steps - ARGS.steps // 2)

# In[7]:

with torch.no_grad():
    e = F.normalize(center.weight, dim=1)
    near = (e @ e.T).topk(3, dim=1).indices
print({itos[i]: [itos[j] for j in near[i, 1:]] for i in (0, 10, 20)})
