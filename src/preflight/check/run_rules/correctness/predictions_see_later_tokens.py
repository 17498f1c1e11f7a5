"""Changes later tokens, and sees that predictions of earlier ones move."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import MOVED, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.predictions_see_later_tokens import RULE
from preflight.vocabulary.finding import Finding

_DATA = """
import torch
from torch import nn
import torch.nn.functional as F
def get_batch(size=4, length=16):
    ids = torch.randint(0, 50, (size, length + 1))
    return ids[:, :-1].cuda(), ids[:, 1:].cuda()
"""
_TRAIN = """
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100):
    x, y = get_batch()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)
    def forward(self, x):
        return self.head(self.body(self.embed(x)))
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)
    def forward(self, x):
        q, k, v = self.qkv(self.embed(x)).chunk(3, -1)
        length = x.size(1)
        allowed = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device), diagonal=1)
        weights = (q @ k.transpose(1, 2) / 32**0.5).masked_fill(~allowed, float("-inf")).softmax(-1)
        return self.head(weights @ v)
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(50, 32), nn.LSTM(32, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 50)
    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.layers = nn.ModuleList(nn.Conv1d(32, 32, 3, padding=1) for _ in range(3))
    def forward(self, x, targets):
        h = self.embed(x).transpose(1, 2)
        for layer in self.layers:
            h = h + torch.relu(layer(h))
        logits = self.head(h.transpose(1, 2))
        return F.cross_entropy(logits.view(-1, 50), targets.reshape(-1))
model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x, y = get_batch()
    loss = model(x, targets=y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
        return self.head(self.body(self.embed(x), mask=mask, is_causal=True))
{_TRAIN}""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(51, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)
    def forward(self, x):
        return self.head(self.body(self.embed(x)))
model = Masked().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100):
    ids = torch.randint(0, 50, (8, 32)).cuda()
    hidden = torch.rand(ids.shape, device="cuda") < 0.3
    logits = model(ids.masked_fill(hidden, 50))
    loss = F.cross_entropy(logits.flatten(0, 1), ids.masked_fill(~hidden, -100).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Copy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.body = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
    def forward(self, source, target):
        mask = self.body.generate_square_subsequent_mask(target.size(1), device=target.device)
        return self.head(self.body(self.embed(source), self.embed(target), tgt_mask=mask))
model = Copy().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(100):
    ids = torch.randint(1, 50, (4, 17)).cuda()
    logits = model(ids, ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find models whose earlier predictions move when later tokens are changed."""
    probe = probe_of(run)
    for model in probe.models if probe is not None else ():
        # What is copied from one input may be read from another as well: a decoder that is causal is enough.
        known = [t for t in model.tokens if t.shift >= 1 and t.moved is not None]
        if not known or not all(t.moved is not None and t.moved > MOVED for t in known):
            continue
        worst = max(known, key=lambda t: t.moved or 0.0)
        assert probe is not None
        yield run.finding(
            RULE,
            model.line,
            f"{model.name} sees the tokens that it has to predict: with the later tokens changed, its predictions for the "
            f"{worst.positions} positions before them move too, by {100 * (worst.moved or 0):.2g} % of what the later ones do",
            evidence=[
                seen("places by which the targets are later than the input", worst.shift),
                seen("move of earlier predictions", worst.moved),
                setting(probe),
            ],
            fix=Fix(
                title="let each position see itself and earlier ones only",
                instruction="pass is_causal=True, or a causal mask of the form that the attention expects",
                expected="a change of later tokens leaves earlier predictions as they are",
            ),
        )
