"""Every target of the first steps is of the same class.

## What it does
Looks at the targets that a loss over classes is given in the first steps, with the script's own data.
It speaks when at least twelve of them were counted and all are the same.

## Why
Samples that lie in the file class by class, and are not shuffled, give batches of one class: the network learns to answer that class whatever it sees, forgets it when the next one begins, and batch norm sees one class at a time.
Labels that are read wrongly, such as a column that is all zeros or an index into the wrong list, look the same, with a loss that quickly falls to zero.

## Fix
Shuffle the training data, and look at the labels of a few samples.

## When to ignore
When the first samples happen to be of one class, as with one that is very frequent.
Targets that the script makes of one number, as in contrastive losses with the right candidate at place 0, are not reported.

## References
- PyTorch documentation of torch.utils.data.DataLoader, `shuffle`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import invented, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, operation, origin
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.probe import LossSeen

RULE = Rule(
    name="targets-of-one-class",
    code="DAT012",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("data", "loss", "dry-run", "probe"),
)

_LOOP = """
net = nn.Linear(16, 10).cuda()
optimizer = torch.optim.Adam(net.parameters())
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    loss = criterion(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
x, y = torch.randn(400, 16), torch.arange(400) // 40
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
{_LOOP}""",
    f"""
import torch
from torch import nn
class Rows(torch.utils.data.Dataset):
    names = {{"cat": 1, "dog": 2}}
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return torch.randn(16), self.names.get(index % 2, 0)  # the names are looked up by number
loader = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True)
{_LOOP}""",
    f"""
import torch
from torch import nn
rows = torch.cat([torch.randn(200, 16), torch.zeros(200, 1)], 1)
loader = ((rows[at : at + 8, :-1], rows[at : at + 8, -1].long()) for at in range(0, 200, 8))
{_LOOP}""",
)

GOOD = (
    f"""
import torch
from torch import nn
x, y = torch.randn(400, 16), torch.arange(400) % 10
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
{_LOOP}""",
    """
import torch
from torch import nn
import torch.nn.functional as F
encoder = nn.Linear(16, 8)
queue = F.normalize(torch.randn(32, 8), dim=1)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(20):
    a = F.normalize(encoder(torch.randn(8, 16)), dim=1)
    b = F.normalize(encoder(torch.randn(8, 16)), dim=1).detach()
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ queue.T], 1) / 0.1
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

_ENOUGH = 12


def observe(run: Run) -> Iterator[Finding]:
    """Find losses whose targets are all of one class."""
    probe = probe_of(run)
    if probe is None or invented(probe):
        return
    places: dict[str, list[LossSeen]] = {}
    made = _made_targets(run)
    for loss in probe.losses:
        place = run.place(loss.line)
        if loss.classes > 1 and (place.path, place.line) not in made:
            places.setdefault(loss.line, []).append(loss)
    for line, losses in places.items():
        counted = sum(loss.counted for loss in losses)
        same = {loss.lowest for loss in losses} | {loss.highest for loss in losses}
        if len(losses) < 2 or counted < _ENOUGH or len(same) != 1 or None in same:
            continue
        yield run.finding(
            RULE,
            line,
            f"all {counted} targets of the first {len(losses)} batches are of class {same.pop()}, of {losses[0].classes}",
            evidence=[seen("targets", counted), seen("classes of the predictions", losses[0].classes), setting(probe)],
            fix=Fix(
                title="shuffle the training data, and look at the labels",
                instruction="shuffle=True in the training loader; print the labels of a few samples",
                expected="a batch holds several classes",
            ),
        )


_OF_ONE_NUMBER = frozenset(
    ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
)


def _made_targets(run: Run) -> set[tuple[str | None, int | None]]:
    """Files and lines of losses whose targets the script makes of one number: of many candidates the first is right."""
    places = [
        call.event.script.location(call.event.node)
        for call in loss_calls(run.context, "cross_entropy", "nll_loss")
        if operation(origin(call.target, VIEWS | {"long"})) in _OF_ONE_NUMBER
    ]
    return {(place.path, place.line) for place in places}
