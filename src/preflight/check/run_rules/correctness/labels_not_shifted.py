"""Sees a causal model whose targets are the very tokens that it is given, place by place, or the tokens after the next."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import MOVED, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.labels_not_shifted import RULE
from preflight.vocabulary.finding import Finding

_MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)
    def forward(self, x):
        q, k, v = self.qkv(self.embed(x)).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(q, k, v, is_causal=True))
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
"""

BAD = (
    f"""{_MODEL}
for step in range(100):
    x = torch.randint(0, 50, (4, 16)).cuda()
    y = x.clone()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_MODEL}
class Tokens(torch.utils.data.Dataset):
    def __init__(self):
        self.ids = torch.randint(0, 50, (64, 17))
    def __len__(self):
        return len(self.ids)
    def __getitem__(self, index):
        return {{"x": self.ids[index, :-1], "y": self.ids[index, 1:]}}
criterion = nn.CrossEntropyLoss()
for batch in torch.utils.data.DataLoader(Tokens(), batch_size=4):
    x, y = batch["x"].cuda(), batch["y"].cuda()
    logits = model(x)
    # the data set has shifted already
    loss = criterion(logits[:, :-1].reshape(-1, 50), y[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
embed, rnn, head = nn.Embedding(50, 32).cuda(), nn.GRU(32, 32, batch_first=True).cuda(), nn.Linear(32, 50).cuda()
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = embed, rnn, head
    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
text = torch.randint(0, 50, (1000,))
for step in range(100):
    at = torch.randint(0, 900, (4,)).tolist()
    x = torch.stack([text[i : i + 16] for i in at]).cuda()
    y = torch.stack([text[i : i + 16] for i in at]).cuda()
    loss = F.cross_entropy(model(x).transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_MODEL}
for step in range(100):
    ids = torch.randint(0, 50, (4, 17)).cuda()
    logits = model(ids)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 50), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 50)
    def forward(self, labels):
        begun = torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], 1)
        return F.cross_entropy(self.head(self.rnn(self.embed(begun))[0]).flatten(0, 1), labels.flatten())
model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(torch.randint(1, 50, (4, 16)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find causal models that are asked for the token they were given, or for the one after the next."""
    probe = probe_of(run)
    for model in probe.models if probe is not None else ():
        causal = [t for t in model.tokens if t.moved is not None and t.moved <= MOVED and (t.own or 0.0) > MOVED]
        shifts = {t.shift for t in model.tokens if t.moved is not None}
        if not causal or 1 in shifts or len(causal) < len([t for t in model.tokens if t.moved is not None]):
            continue
        assert probe is not None
        shift = causal[0].shift
        yield run.finding(
            RULE,
            model.line,
            f"the targets of {model.name} are the tokens that it is given, place by place: it only has to repeat them"
            if shift == 0
            else f"the targets of {model.name} are {shift} places later than its predictions see: they are shifted twice",
            evidence=[
                seen("places that the targets are ahead", shift),
                seen("move of earlier predictions when later tokens change", causal[0].moved),
                setting(probe),
            ],
            fix=Fix(
                title="shift the targets by one place in all",
                instruction="compare the prediction at place t with the token at place t + 1",
                expected="the network learns to predict the next token",
            ),
        )
