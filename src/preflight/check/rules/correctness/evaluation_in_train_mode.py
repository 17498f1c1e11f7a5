"""The model is evaluated in train mode.

## What it does
Looks for a model that is trained and then called on other data for evaluation, with no `eval()` on the way there, and that holds dropout or batch norm.
Evaluation is recognised by structure: the input comes from a loader that training does not use, and the result does not reach a training loss; or gradients are off and another trained model beside it is in eval mode.

## Why
In train mode, dropout drops a share of the activations of the test data, so the result is noisy and too low; batch norm normalises with the statistics of the test batch and also updates its running statistics from test data, which leaks into what is saved.

## Fix
Call `model.eval()` before the evaluation and `model.train()` after it.

## When to ignore
When the noise is wanted, as for Monte-Carlo dropout.

## References
- PyTorch documentation of Module.eval
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.kept_graphs import evaluated_by_framework
from preflight.check.queries.loaders import TORCH, dataset_of, setting
from preflight.check.queries.modes import concerns, handed_out, has_modes, modes_of, network_modes, reaches, uses_of
from preflight.check.queries.tensors import grad_off, within_forward
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Func, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-in-train-mode",
    code="MOD002",
    severity="error",
    confidence="likely",
    needs=("training_loop", "model", "complete"),
    layer="D",
    tags=("modes",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
train_loader, test_loader = DataLoader(train_set), DataLoader(test_set)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in test_loader:
            correct = (model(x).argmax(1) == y).sum()
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(8, 2), nn.BatchNorm1d(2)
    def forward(self, x):
        return self.bn(self.fc(x))
def evaluate(net, data):
    total = 0
    for x, y in data:
        total += (net(x).argmax(1) == y).sum().item()
    return total
def main():
    a = torch.utils.data.DataLoader(train_set, batch_size=8)
    b = torch.utils.data.DataLoader(test_set, batch_size=8)
    net = Net()
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(10):
        net.train()
        for x, y in a:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        evaluate(net, b)
main()
""",
    """
import argparse, torch, torch.nn as nn
p = argparse.ArgumentParser()
p.add_argument("--dropout", type=float, default=0.3)
args = p.parse_args()
encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout(args.dropout))
head = nn.Sequential(nn.Dropout(args.dropout), nn.Linear(8, 2))
opt = torch.optim.Adam(list(encoder.parameters()) + list(head.parameters()))
@torch.no_grad()
def test(x):
    encoder.eval()
    return head(encoder(x))
for x, y in batches:
    encoder.train()
    opt.zero_grad()
    nn.functional.cross_entropy(head(encoder(x)), y).backward()
    opt.step()
    test(held_out)
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
whole = read("all")
train_loader = DataLoader(whole, batch_size=8, sampler=SubsetRandomSampler(range(900)))
valid_loader = DataLoader(whole, batch_size=8, sampler=SubsetRandomSampler(range(900, 1000)))
for epoch in range(10):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in valid_loader:
            print((net(x).argmax(1) == y).float().mean())
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
frames = Frames("train")
loader = DataLoader(frames, batch_size=8, shuffle=True)
in_order = DataLoader(frames, batch_size=8, shuffle=False)
@torch.no_grad()
def space_out():
    net.train()
    for indices, x in in_order:
        for index, moved in zip(indices, net(x)):
            frames.set_shift(index, moved.norm().item())
for epoch in range(10):
    net.train()
    for indices, x in loader:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    space_out()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
labelled = torch.utils.data.DataLoader(first, batch_size=8, shuffle=True)
others = iter(torch.utils.data.DataLoader(second, batch_size=8, shuffle=True))
for epoch in range(10):
    net.train()
    for x, y in labelled:
        u, _ = next(others)
        with torch.no_grad():
            guessed = net(u).softmax(dim=1)
        optimizer.zero_grad()
        loss = both(net(torch.cat([x, u])), y, guessed)
        loss.backward()
        optimizer.step()
""",
    """
import torch
import lightning.pytorch as pl
from torch import nn
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.rebuilt = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1))
        self.automatic_optimization = False
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.rebuilt(self.net(batch)), batch)
        self.manual_backward(loss)
        optimizer.step()
    def validation_step(self, batch, batch_idx):
        self.net.eval()
        with torch.no_grad():
            return self.rebuilt(self.net(batch))
pl.Trainer(max_epochs=3).fit(Lit(), torch.utils.data.DataLoader(first, batch_size=8), torch.utils.data.DataLoader(second, batch_size=8))
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
labelled, bare = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8, shuffle=True)
for (x, y), (z,) in zip(labelled, bare):
    known, unknown = net(x), net(z)
    optimizer.zero_grad()
    entropy = F.cross_entropy(unknown, unknown.softmax(-1))
    loss = F.cross_entropy(known, y)
    print(entropy.item())
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    def forward(self, x):
        return self.layers(x)
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Body()
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.encoder(x))
model = Whole()
if torch.cuda.device_count() > 1:
    model.encoder = nn.DataParallel(model.encoder)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in valid:
            score = model.head(model.encoder(x))
""",
    """
import sys, torch
from torch import nn
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    def forward(self, x):
        return self.body(x)
class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Linear(64, 2))
    def forward(self, x):
        return self.body(x)
model = Small() if sys.argv[1] == "small" else Large()
model = nn.parallel.DistributedDataParallel(model.cuda()) if len(sys.argv) > 2 else nn.DataParallel(model.cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
training = torch.utils.data.DataLoader(open_data("train"), batch_size=32, shuffle=True)
testing = torch.utils.data.DataLoader(open_data("test"), batch_size=32)
for epoch in range(10):
    model.train()
    for x, y in training:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in testing:
            model(x).argmax(1)
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
train_loader, test_loader = DataLoader(train_set), DataLoader(test_set)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    for x, y in test_loader:
        correct = (model(x).argmax(1) == y).sum()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
train_loader, test_loader = DataLoader(train_set), DataLoader(test_set)
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def run(loader, training):
    model.train(training)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
for epoch in range(10):
    run(train_loader, True)
    run(test_loader, False)
""",
    """
import torch, torch.nn as nn
g = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
opt = torch.optim.Adam(g.parameters())
fixed = torch.randn(64, 8)
for x in torch.utils.data.DataLoader(real):
    opt.zero_grad()
    (g(torch.randn(16, 8)) - x).square().mean().backward()
    opt.step()
    with torch.no_grad():
        picture = g(fixed)
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(train, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, _ in DataLoader(calibration, batch_size=256):
        model(x)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look, for each model that is trained, for an evaluation that no eval precedes."""
    for model in context.reading.models:
        modal = has_modes(model)
        if modal is None:
            modal = network_modes(context, model)
        if modal is False:
            continue
        for loop in context.reading.loops:
            event = _evaluated(context, model, loop)
            if event is not None:
                yield _report(context, event, loop, modal)
                break


def _evaluated(context: Context, model: Obj, loop: TrainingLoop) -> Event | None:
    losses = set().union(*(one.behind_losses for one in context.reading.loops))
    uses = [e for e in uses_of(context, model) if e.name == "()" and not within_forward(e.context)]
    training = [e for e in uses if reaches(e.result, losses) and e.context.within(loop.frame)]
    if not training or any(handed_out(context, model, f) for f in loop.frame.loops()):
        return None
    trained_on = [source for e in training for source in _sources(context, e)]
    lines = {id(e.node) for e in training}  # the same line, followed for another process, trains too
    for event in uses:
        if (
            event.result is None
            or id(event.node) in lines
            or id(event.result) in losses
            or event.context.shadow
            or event.number < training[0].number
            or _unused(context, event)
            or (event.context.loops()[:1] == [loop.frame] and not grad_off(event.context))
            or _before_gradients(context, event, loop)
        ):
            continue  # a pass of the training itself, of which the loss may make no use, or its targets
        sources = _sources(context, event)
        other_data = bool(sources) and not any(_same_data(s, one) for s in sources for one in trained_on)
        if not other_data and not (grad_off(event.context) and _companion_in_eval(context, model, event)):
            continue
        if not _in_eval(context, model, event):
            return event
    return None


def _before_gradients(context: Context, event: Event, loop: TrainingLoop) -> bool:
    """Whether a pass stands in a training step, before its gradients: it makes targets of samples without labels."""
    around = event.context.loops()[:1]
    return (
        bool(around)
        and around[0].node is loop.frame.node
        and any(
            e.number > event.number and e.context.within(around[0])
            for e in context.trace.calls(".backward", ".manual_backward", "torch.autograd.backward")
        )
    )


def _unused(context: Context, event: Event) -> bool:
    """Whether nothing receives what the model returns: batch norm's statistics are what the pass is for."""
    statement = context.statement(event.script, event.node)
    return isinstance(statement, ast.Expr) and statement.value is event.node


def _sources(context: Context, event: Event) -> list[Value]:
    """The loaders and datasets that the input of a call comes from."""
    parts = (p for value in (*event.args, *event.kwargs.values()) for p in provenance(value, 400))
    return [p for p in parts if context.roles.of(p) == "loader"]


def _same_data(source: Value, trained_on: Value) -> bool:
    """Whether what a pass reads is what training reads: the same loader, or another one over the whole of its dataset."""
    if source is trained_on:
        return True
    if not isinstance(source, Obj) or not isinstance(trained_on, Obj) or {source.name, trained_on.name} != {TORCH}:
        return False
    whole = all(setting(source, name) is None for name in ("sampler", "batch_sampler"))
    data = dataset_of(source)
    return whole and data is not None and data is dataset_of(trained_on)


def _in_eval(context: Context, model: Obj, event: Event) -> bool:
    """Whether the model may be in eval mode at a call: the last unconditional call of train or eval before it says.

    Lightning sets the mode of all networks of its module around the hooks that evaluate.
    """
    if any(isinstance(f.value, Func) and evaluated_by_framework(f.value) for f in event.context.frames()):
        return True
    for mode in reversed(modes_of(context, model)):
        if mode.event.number > event.number:
            continue
        if mode.training is not True:
            return True
        if not any(f.kind in ("if", "except") and not event.context.within(f) for f in mode.event.context.frames()):
            return False
    return False


def _companion_in_eval(context: Context, model: Obj, event: Event) -> bool:
    """Whether another trained model is put into eval mode in the same function, before the call."""
    function = next((f for f in event.context.frames() if f.kind == "call"), None)
    if function is None:
        return False
    others = [m for m in context.reading.models if m is not model]
    return any(
        e.context.within(function) and e.number < event.number and any(concerns(e, o) for o in others)
        for e in context.trace.calls(".eval")
    )


def _report(context: Context, event: Event, loop: TrainingLoop, modal: bool | None) -> Finding:
    receiver = settle(event.receiver) if event.receiver is not None else None
    return context.finding(
        RULE,
        event,
        "the model is evaluated in train mode: "
        + ("its" if modal else "any")
        + " dropout or batch norm works on the test data as it does in training",
        severity="error" if modal else "warning",
        confidence="likely" if modal else "possible",
        evidence=[
            Evidence("calls of eval() before this evaluation", 0),
            Evidence("layers that depend on the mode", "found" if modal else "not known"),
        ],
        related=[(loop.backwards[0], "the model is trained here")]
        + ([(receiver, "the model is made here")] if receiver is not None and receiver.site is not None else []),
        fix=Fix(
            title="evaluate in eval mode",
            instruction="call eval() on the model before the evaluation, and train() after it",
            expected="the result no longer depends on dropout or on the test batch",
        ),
    )
