"""The model is shown the tokens that it has to predict.

## What it does
Trains the model of the script, after its own steps and on the CPU, on tokens that are drawn evenly and anew in each round, in every input that holds the targets.
Who does not see a token in advance cannot get below a loss of log(K) on K kinds of them.
A model that does get below was shown its targets.
Where the way is the model's own attention or convolution over later tokens, predictions-see-later-tokens says so, and this rule is silent.

## Why
A decoder that is given its own target, beside the tokens before it, copies it.
The training loss falls to nothing, and where the target is not known the model is of no use.

## Fix
Give the decoder the targets shifted by one place: position t sees the tokens before t, and predicts token t.

## When to ignore
When the task is to give back the input, as in an autoencoder: there the finding is only a possible one.

## References
- Cover and Thomas, "Elements of Information Theory", on the entropy of an even distribution
- Vaswani et al., "Attention Is All You Need" (2017), section 3.1, on shifted outputs
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import MOVED, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.check.run_rules.correctness import labels_not_shifted, predictions_see_later_tokens
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="target-visible-to-model",
    code="ATT003",
    severity="error",
    confidence="certain",
    layer="V",
    tags=("attention", "loss", "dry-run", "probe"),
)
_BELOW = 0.8
"""A loss below this share of the floor, over hundreds of tokens, does not come about by chance."""

_DATA = """
import torch
from torch import nn
import torch.nn.functional as F
def get_batch(size=8, length=16):
    ids = torch.randint(0, 50, (size, length + 1))
    return ids[:, :-1].cuda(), ids[:, 1:].cuda()
"""
_TRAIN = """
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100):
    x, y = get_batch()
    loss = F.cross_entropy(model(x, y).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 50)
    def forward(self, x, target):
        return self.head(self.rnn(self.embed(x))[0] + self.embed(target))
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(50, 32), nn.LSTM(64, 32, batch_first=True)
        self.head = nn.Linear(32, 50)
    def forward(self, x, target):
        teacher = torch.cat([self.embed(x), self.embed(target)], dim=-1)
        return self.head(self.rnn(teacher)[0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(32, 50)
    def forward(self, x, target):
        return self.head(self.body(self.embed(target)))
{_TRAIN}""",
)

GOOD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 50)
    def forward(self, x, target):
        logits = self.head(self.rnn(self.embed(x))[0])
        self.loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        return logits
{_TRAIN}""",
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
    """Find models that learned tokens which nothing can tell beforehand."""
    probe = probe_of(run)
    if probe is None:
        return
    told = {
        finding.location.line
        for rule in (labels_not_shifted, predictions_see_later_tokens)
        for finding in rule.observe(run)
    }
    for model in probe.models:
        known = model.guess
        if known is None or known.loss >= _BELOW * known.floor or run.place(model.line).line in told:
            continue
        # Targets that are the input itself, read as a whole: so is an autoencoder.
        whole = all(t.shift == 0 for t in model.tokens) and any((t.moved or 0.0) > MOVED for t in model.tokens)
        yield run.finding(
            RULE,
            model.line,
            f"{model.name} sees its targets: on random tokens, which nobody can predict, its loss falls to {known.loss:.2g}, "
            f"and without seeing them log({known.kinds}) = {known.floor:.2f} is the least",
            evidence=[
                seen("loss on random targets", known.loss),
                seen("floor of the loss", known.floor),
                seen("rounds of learning", known.rounds),
                setting(probe),
            ],
            fix=Fix(
                title="hide the targets from the model",
                instruction="give the decoder the targets shifted by one place, and use the others only in the loss",
                expected="the loss on random targets stays at its floor",
            ),
            severity="warning" if whole else None,
            confidence="possible" if whole else None,
        )
