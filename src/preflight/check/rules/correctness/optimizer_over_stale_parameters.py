"""The optimizer holds parameters of a model that is not the one that is trained.

## What it does
Looks for an optimizer that steps although none of the losses since its last clearing reaches a parameter it holds, and for one that was built before FSDP replaced the parameters.

## Why
The optimizer moves (or weight decay shrinks) weights that no gradient reaches, and the model that is trained keeps its initial values.
No error is raised: a parameter without a gradient is skipped.

## Fix
Build the optimizer from the model that the loop calls, after it has been replaced or wrapped for the last time.

## When to ignore
When gradients are written into `p.grad` by hand.

## References
- PyTorch documentation, `torch.distributed.fsdp.FullyShardedDataParallel`: "the optimizer must be initialized after the module has been wrapped"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import explained, reached
from preflight.check.queries.parameters import parts_of
from preflight.check.queries.updates import Update, accumulation, guards, managed, updates
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event
from preflight.source.training import loss_of
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-over-stale-parameters",
    code="OPT004",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(10, width)
    def forward(self, x):
        return self.a(x)
model = Net(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = Net(16)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.teacher, self.student = nn.Linear(10, 2), nn.Linear(10, 2)
        self.opt = Opt(self.teacher.parameters())
    def update(self, x, y):
        self.opt.zero_grad()
        nn.functional.mse_loss(self.student(x), y).backward()
        self.opt.step()
t = Trainer()
for x, y in loader:
    t.update(x, y)
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()
G, D1, D2 = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)
one = torch.optim.Adam(D1.parameters(), lr=args.lr)
two = torch.optim.Adam(D2.parameters(), lr=args.lr)
gen = torch.optim.Adam(G.parameters(), lr=args.lr)
for x in data:
    gen.zero_grad()
    fake = G(x)
    (D1(fake).mean() + D2(fake).mean()).backward()
    gen.step()
    one.zero_grad()
    (D1(x).mean() - D1(fake.detach()).mean()).backward()
    one.step()
    two.zero_grad()
    (D1(x).mean() - D1(fake.detach()).mean()).backward()
    two.step()
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
optimizer = torch.optim.AdamW(model.parameters())
model = FSDP(model)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)
    def forward(self, x, steps):
        outputs = torch.zeros(steps, 4, 8).to(x.device)
        for t in range(1, steps):
            x = self.cell(x)
            outputs[t] = x
        return outputs
model = Decoder().to("cuda")
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
for x, y in data:
    optimizer.zero_grad()
    criterion(model(x, y.shape[0])[1:].view(-1, 8), y[1:].view(-1)).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
optimizer = torch.optim.AdamW(model.parameters())
model = torch.compile(DDP(model.cuda()))
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
policy = nn.Linear(4, 2)
value = nn.Linear(4, 1)
optimizer = torch.optim.Adam(policy.parameters())
saved = []
for x in data:
    saved.append(policy(x).log_softmax(-1))
    baseline = value(x).mean()
    loss = sum(-s.mean() for s in saved) + baseline
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for x in data:
    opt_g.zero_grad()
    opt_d.zero_grad()
    D(G(x)).mean().backward()
    opt_g.step()
    for p in D.parameters():
        p.grad.neg_()
    opt_d.step()
""",
    """
import torch
from torch import nn
shared, own = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.Adam(shared.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(own(x), y).backward()
    for theirs, mine in zip(shared.parameters(), own.parameters()):
        theirs._grad = mine.grad
    optimizer.step()
    own.load_state_dict(shared.state_dict())
""",
    """
import torch, torchvision
model = torchvision.models.resnet18(weights="DEFAULT")
for p in model.parameters():
    p.requires_grad = False
model.fc = torch.nn.Linear(model.fc.in_features, 2)
model = model.to("cuda")
optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.001)
for x, y in data:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
)

_SHARDING = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.FullyShardedDataParallel",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for updates that no gradient reaches, or whose parameters were replaced."""
    if managed(context) or any(s.name == "grad" for s in context.trace.stores):
        return
    for update in updates(context):
        wrapping = _sharded_later(context, update)
        if wrapping is not None:
            yield _finding(
                context,
                update,
                wrapping,
                "the optimizer was built before FSDP replaced the parameters: it steps on the old ones",
            )
            continue
        trained = _instead(context, update)
        if trained is not None:
            yield _finding(
                context,
                update,
                trained,
                "the optimizer holds parameters that no gradient reaches: what the loop trains is another model",
            )


def _finding(context: Context, update: Update, place: Event | Obj, text: str) -> Finding:
    made = context.reading.event_of(update.optimizer)
    return context.finding(
        RULE,
        made or update.optimizer,
        text,
        evidence=[
            Evidence("owners of its parameters", len(update.holding.parts)),
            Evidence("of them reached by a gradient", 0),
        ],
        fix=Fix(
            title="build the optimizer from the model that is trained",
            safe=False,
            instruction="build the optimizer after the model was made and wrapped for the last time, or compute the loss with its model",
            expected="the weights that are trained are updated",
        ),
        related=[
            (place, "what is trained instead" if isinstance(place, Obj) else "the parameters are replaced here"),
            (update.steps[0], "the optimizer steps here"),
        ],
    )


def _sharded_later(context: Context, update: Update) -> Event | None:
    made = context.reading.event_of(update.optimizer)
    for event in context.trace.calls(*_SHARDING):
        target = event.argument(0, "module")
        inner = settle(target) if target is not None else None
        if made is None or event.number < made.number or event.context.shadow or not isinstance(inner, Obj):
            continue
        if id(inner) in update.holding.members and event.number < update.steps[0].number:
            return event
    return None


def _instead(context: Context, update: Update) -> Obj | None:
    """What is trained instead of what the optimizer holds."""
    holding, frame = update.holding, update.loop.frame
    if (
        not holding.complete
        or not holding.parts
        or update.unsure
        or accumulation(update) is not None
        or len(update.steps) != 1
    ):
        return None
    if any(not is_module(p.owner) for p in holding.parts) or _used_elsewhere(context, update):
        return None
    step = update.steps[0]
    if guards(step, frame) or step.context.shadow or (step.args and step.receiver is update.optimizer):
        return None
    start = max((z.number for z in update.zeros if z.number < step.number), default=0)
    relevant = [b for b in update.loop.backwards if start < b.number < step.number]
    if not relevant and update.zeros and start == 0:
        relevant = update.loop.backwards
    losses = [loss for b in relevant if (loss := loss_of(b)) is not None]
    if not losses or len(losses) != len(relevant) or not explained(losses):
        return None
    found = reached(losses)
    # Inside a network of a library nothing is seen: its parts are taken to be used.
    within = {i for value in found.values() if value.cls is None and is_module(value) for i in parts_of(value)}
    if holding.members & (found.keys() | within):
        return None
    for value in found.values():
        if value.name == "()" and isinstance(settle(value.receiver), Obj) and is_module(value.receiver):  # type: ignore[arg-type]
            holder = settle(value.receiver)  # type: ignore[arg-type]
            if isinstance(holder, Obj) and not (holder.cls is None and holder.name.endswith("Loss")):
                return holder  # a criterion has nothing to train
    return None


def _used_elsewhere(context: Context, update: Update) -> bool:
    """Whether the held models (or the optimizer) go into code that is not seen, which may train them."""
    mine = {id(p.owner) for p in update.holding.parts} | {id(update.optimizer)}
    for event in context.trace.events:
        if (
            event.inlined
            or event.name.startswith(("builtins.", "torch."))
            or event.name in ("()", ".append", ".load_state_dict", ".step")
        ):
            continue
        for value in (*event.args, *event.kwargs.values()):
            base = settle(value)
            if isinstance(base, Obj) and (id(base) in mine or (is_module(base) and mine & parts_of(base).keys())):
                return True
    return False
