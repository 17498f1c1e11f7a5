"""The loss is given the target where it takes the prediction.

## What it does
Looks for cross entropies and the like whose first argument is only data, and whose second one a network computes with gradients.

## Why
These losses are not symmetric: the first argument is what the network says, the second is what it should say.
The other way round most raise an error about types or shapes; where they do not, the gradient is that of another loss.

## Fix
Exchange the arguments: `loss(prediction, target)`.

## When to ignore
When the target is to be trained towards fixed predictions on purpose.

## References
- PyTorch, `torch.nn.CrossEntropyLoss`: input, then target
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.cut_off import behind, is_network_call, nothing_left
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="loss-arguments-swapped", code="SHP008", severity="error", confidence="likely", layer="D", tags=("loss",)
)

BAD = (
    """
import torch
from torch import nn
def train(model, batches, device="cuda"):
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        criterion(labels, outputs).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model, criterion = nn.Linear(10, 2), nn.CrossEntropyLoss()
for x, y in DataLoader(dataset, batch_size=8):
    loss = criterion(y, model(x))
    loss.backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
    def forward(self, x):
        return F.log_softmax(self.fc(x), dim=1)
net = Net().cuda()
for images, labels in DataLoader(pictures, 32, shuffle=True):
    F.nll_loss(labels.cuda(), net(images.cuda())).backward()
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Sigmoid())
for x, y in DataLoader(rows, batch_size=64):
    torch.nn.functional.binary_cross_entropy(y.float(), net(x).squeeze(1)).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model, criterion = nn.Linear(10, 2), nn.CrossEntropyLoss()
for x, y in DataLoader(dataset, batch_size=8):
    criterion(model(x), y).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
student, teacher = nn.Linear(10, 2), nn.Linear(10, 2)
for x, _ in DataLoader(dataset, batch_size=8):
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    nn.functional.cross_entropy(student(x), target).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 10)
for x, _ in DataLoader(dataset, batch_size=8):
    nn.functional.mse_loss(x, model(x)).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model, table = nn.Linear(10, 4), nn.Parameter(torch.zeros(8, 4))
for x, y in DataLoader(dataset, batch_size=8):
    nn.functional.cross_entropy(table[y], model(x).softmax(-1)).backward()
""",
)

_KINDS = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")


def check(context: Context) -> Iterator[Finding]:
    """Find losses whose first argument is data and whose second one a network makes."""
    for call in loss_calls(context, *_KINDS):
        given, target = call.input, call.target
        if given is None or target is None or not call.recorded or call.event.context.shadow:
            continue
        if behind(given) or not (_swapped(given, target) or _of_one_batch(context, given, target)):
            continue
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} takes the prediction first and the target second; here it is the other way round",
            evidence=[Evidence("first argument", "data"), Evidence("second argument", "output of a network")],
            fix=Fix(
                title="exchange the arguments",
                safe=False,
                edits=edits(_edit(context, call)),
                instruction="write loss(prediction, target)",
                expected="the prediction is compared with the target",
            ),
        )


def _swapped(given: Value, target: Value) -> bool:
    """Whether nothing of the first argument is trained, and a network makes the second one."""
    return nothing_left(given) and any(is_network_call(value) for value in graph(target))


_MOVES = frozenset((".to", ".cuda", ".long", ".float", ".squeeze", ".view", ".reshape"))


def _of_one_batch(context: Context, given: Value, target: Value) -> bool:
    """Whether the first argument is a part of a batch, and the second what a network that is handed in makes of the rest."""
    called = settle(target)
    if not isinstance(called, Obj) or called.name != "()" or not called.args or called.receiver is None:
        return False
    if context.roles.of(called.receiver) != "model":
        return False
    mine, fed = _batch(given), _batch(called.args[0])
    return mine is not None and fed is not None and mine[0] is fed[0] and mine[1] != fed[1]


def _batch(value: Value) -> tuple[Value, object] | None:
    """The batch that a value is an item of, and which item."""
    current = settle(value)
    while isinstance(current, Obj) and current.name in _MOVES and current.receiver is not None:
        current = settle(current.receiver)
    if not isinstance(current, Obj) or current.kind != "item" or current.receiver is None or not current.args:
        return None
    return settle(current.receiver), plain(current.args[0], None)


def _edit(context: Context, call: LossCall) -> Edit | None:
    """Exchange two plain arguments."""
    node = call.event.node
    if (
        not isinstance(node, ast.Call)
        or len(node.args) < 2
        or any(isinstance(one, ast.Starred) for one in node.args[:2])
    ):
        return None
    script = call.event.script
    first, second = (script.segment(one) for one in node.args[:2])
    whole = script.segment(node)
    head, found, tail = whole.partition(first)
    if not found or "\n" in whole or second not in tail:
        return None
    between, _, end = tail.partition(second)
    return context.replace(call.event, f"{head}{second}{between}{first}{end}")
