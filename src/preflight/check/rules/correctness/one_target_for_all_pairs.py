"""All rows of a matrix of similarities have one and the same positive.

## What it does
Looks for a cross-entropy over the products of a batch with a batch, `a @ b.t()`, whose targets are one number for all rows, as `torch.zeros(n)`.

## Why
Row `i` holds how alike sample `i` and each partner are, and its own partner stands in column `i`.
With zeros as targets, all samples of a batch are drawn towards the first partner, and their own ones count as negatives.
Zeros are right where the positive was put in front of the negatives, as with a queue of keys; there the matrix is put together of two parts.

## Fix
Number the targets: `torch.arange(len(scores), device=scores.device)`.

## When to ignore
When each row of the product was arranged beforehand so that its own partner comes first.

## References
- van den Oord et al., "Representation learning with contrastive predictive coding", 2018, equation 4
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.similarities import of_one_target
from preflight.check.queries.tensors import operation, source_text
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

_REACH, _CLOSE = 60, 6

RULE = Rule(
    name="one-target-for-all-pairs",
    code="CON004",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "contrastive"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
encoder, other = nn.Linear(8, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *other.parameters()])
def train(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for x, y in loader:
    a, b = F.normalize(encoder(x), dim=-1), F.normalize(other(y), dim=-1)
    scores = a @ b.T / 0.1
    labels = torch.zeros(len(x), dtype=torch.long)
    train(F.cross_entropy(scores, labels))
""",
    f"""{_HEAD}
class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss()
    def forward(self, a, b):
        scores = torch.mm(a, b.transpose(0, 1)) * 20
        return self.loss(scores, torch.zeros(scores.size(0)).long().to(scores.device))
pairs = Pairs()
for x, y in loader:
    train(pairs(encoder(x), other(y)))
""",
    f"""{_HEAD}
def nce(queries, keys, temperature=0.2):
    logits = torch.matmul(queries, keys.t())
    target = logits.new_zeros(len(logits), dtype=torch.long)
    return F.cross_entropy(logits / temperature, target)
for x, y in loader:
    train(nce(encoder(x), other(y)))
""",
    f"""{_HEAD}
for x, y in loader:
    scores = torch.einsum("nd,md->nm", encoder(x), other(y)) / 0.1
    train(F.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long)))
""",
)
GOOD = (
    f"""{_HEAD}
for queries, positive, negatives in loader:
    keys = F.normalize(torch.cat([other(positive), other(negatives)]), dim=-1)
    scores = encoder(queries) @ keys.t()
    train(F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long)))
""",
    f"""{_HEAD}
for x, y in loader:
    scores = torch.einsum("nd,nmd->nm", encoder(x), other(y)) / 0.1
    train(F.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long)))
""",
    f"""{_HEAD}
for x, y in loader:
    a, b = F.normalize(encoder(x), dim=-1), F.normalize(other(y), dim=-1)
    train(F.cross_entropy(a @ b.T / 0.1, torch.arange(len(x))))
""",
    f"""{_HEAD}
queue = torch.randn(64, 4)
for x, y in loader:
    q, k = F.normalize(encoder(x), dim=-1), F.normalize(other(y), dim=-1)
    scores = torch.cat([(q * k.detach()).sum(1, keepdim=True), q @ queue.t()], dim=1)
    train(F.cross_entropy(scores / 0.07, torch.zeros(len(x), dtype=torch.long)))
""",
    f"""{_HEAD}
classes = nn.Parameter(torch.randn(10, 4))
for x, y in loader:
    train(F.cross_entropy(encoder(x) @ classes.t(), torch.zeros(len(x), dtype=torch.long)))
""",
    f"""{_HEAD}
for query, passages in loader:
    q, p = encoder(query), other(passages)
    first = torch.zeros(len(q), dtype=torch.long)
    train(F.cross_entropy((q.unsqueeze(1) @ p.transpose(1, 2)).squeeze(1), first))
""",
    f"""{_HEAD}
described = torch.tensor([[1.0] * 6, [0.0] * 6])
for real, made in loader:
    classes = other(described)
    right = F.cross_entropy(encoder(real) @ classes.t(), torch.zeros(len(real), dtype=torch.long))
    train(right + F.cross_entropy(encoder(made) @ classes.t(), torch.ones(len(made), dtype=torch.long)))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at losses over products of samples whose targets are one number."""
    told: set[int] = set()
    for found in of_one_target(context):
        sides = found.left, found.right
        if id(found.product) in told or not all(_of_network(side) and not _stands_apart(side) for side in sides):
            continue
        if _of_parts(found.right) and not _of_parts(found.left):
            continue  # one positive, put in front of what all rows are held against
        if not _of_one_batch(*sides):
            continue
        told.add(id(found.product))
        yield context.finding(
            RULE,
            found.call.event,
            f"each row of {source_text(context, found.product)} is told that its partner stands in one and the same column",
            evidence=[Evidence("targets that the rows have", 1)],
            related=[(found.product, "the similarities of samples with samples")],
            fix=Fix(
                title="number the targets",
                instruction="write torch.arange(len(scores), device=scores.device): the partner of row i stands in column i",
                expected="each sample is drawn towards its own partner",
            ),
        )


def _of_network(side: Value) -> bool:
    """Whether one side of a product came out of a network, and is no table of weights."""
    return any(isinstance(part, Obj) and part.name == "()" and part.kind == "call" for part in provenance(side, _REACH))


def _of_parts(side: Value) -> bool:
    """Whether one side was put together, perhaps scaled since."""
    near = (part for part in provenance(side, _CLOSE) if isinstance(part, Obj))
    return any(operation(part) in ("cat", "concat", "concatenate", "vstack") for part in near)


def _of_one_batch(left: Value, right: Value) -> bool:
    """Whether both sides come from the same data; descriptions of classes, for one, come from elsewhere than the samples."""
    made = {id(part) for part in provenance(left, _REACH) if _is_data(part)}
    return any(id(part) in made for part in provenance(right, _REACH))


def _is_data(part: Value) -> bool:
    return not isinstance(part, Known) and not (isinstance(part, Obj) and is_module(part))


def _stands_apart(side: Value) -> bool:
    """Whether one side of a product was given another dimension: then each row has partners of its own."""
    base = settle(side)
    return isinstance(base, Obj) and operation(base) in ("unsqueeze", "view", "reshape", "[]", "expand")
