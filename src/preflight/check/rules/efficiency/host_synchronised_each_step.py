"""The host waits for the GPU in each step.

## What it does
Looks, in each pass of a training loop, for calls that need the value of a tensor on the GPU: `.item()`, `float()`, `.cpu()`, `.tolist()`, `print`; a dry run also sees `if` on a tensor.

## Why
The host runs ahead of the GPU and queues its work.
Each of these calls empties the queue: the host waits until the GPU has caught up, then the GPU waits until the host has queued more.
One per step, at its end, costs little where the step takes long.
Inside a loop over parameters or samples there is one wait per pass: a gradient norm read with `.item()` for each of 150 parameters is 150 waits per step.

## Fix
Keep values on the GPU and read them every n steps: collect `loss.detach()`, and call `.item()` under `if step % n == 0`.

## When to ignore
When the step takes long against the wait, and there is one wait at its end.

## References
- PyTorch documentation, "Performance tuning guide": "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.kept_graphs import recorded
from preflight.check.queries.steps import each_pass, from_network, inner_loops, step_loops, uses_gpu
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="host-synchronised-each-step",
    code="EFF001",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("synchronisation",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = 0
    for p in model.parameters():
        total += p.grad.norm().item() ** 2
""",
    """
import argparse, torch
import torch.nn as nn
class Trainer:
    def __init__(self, args):
        self.net = nn.Linear(10, 2).to(args.device)
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.history = []
    def log(self, loss):
        self.history.append(float(loss))
    def step(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.log(loss)
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
trainer = Trainer(parser.parse_args())
for x, y in loader:
    trainer.step(x, y)
""",
    """
import torch
from torch.nn import Linear
from torch.nn.functional import cross_entropy as ce
net = Linear(10, 2).to("cuda")
o = torch.optim.Adam(net.parameters())
def report(step, loss, out):
    print(step, loss)
    return out.argmax(-1).cpu().numpy()
for i, batch in enumerate(batches):
    out = net(batch[0])
    loss = ce(out, batch[1])
    o.zero_grad()
    loss.backward()
    o.step()
    report(i, loss, out)
""",
)
GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros((), device="cuda")
for i, (x, y) in enumerate(data):
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
    count = float(len(x)) + int(x.size(0))
    if i % 50 == 0:
        print(i, loss.item(), total.cpu())
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
)

_METHODS = (".item", ".tolist", ".cpu", ".numpy")
_FUNCTIONS = ("builtins.float", "builtins.int", "builtins.bool", "builtins.print")
_MANY = 5


def check(context: Context) -> Iterator[Finding]:
    """Find what waits for the GPU in each pass of a training loop; one finding for each loop."""
    if not uses_gpu(context):
        return
    for loop in step_loops(context):
        waits = _waits(context, loop)
        if not waits:
            continue
        repeated = [e for e in waits if _repeated(e, loop)]
        trained = {_line(e, e) for e in waits if recorded(e.context) is not False}
        first = (repeated or waits)[0]
        lines = sorted({_line(e, first) for e in waits})
        where = f"line {lines[0]}" if len(lines) == 1 else "lines " + ", ".join(lines)
        often = f", {len(repeated)} of them in an inner loop" if repeated else ""
        yield context.finding(
            RULE,
            first,
            f"the host waits for the GPU in each step at {len(lines)} place{'s' if len(lines) > 1 else ''} ({where}{often}): "
            "the GPU idles until new work is queued",
            evidence=[
                Evidence("places that wait", len(lines), "per step", "derived", where),
                Evidence("in an inner loop", len(repeated)),
            ],
            related=[(e, _shown(e)) for e in _once(waits) if e is not first],
            fix=Fix(
                title="read values only every n steps",
                instruction="keep detached tensors, and call .item() under `if step % n == 0`",
                expected="the host queues the next step while the GPU works on this one",
            ),
            severity="warning" if repeated or len(trained) >= _MANY else None,
        )


def _waits(context: Context, loop: TrainingLoop) -> list[Event]:
    found: list[Event] = []
    for event in context.trace.calls(*_METHODS, *_FUNCTIONS):
        if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame):
            continue
        values = [event.receiver] if event.name in _METHODS else event.args
        if any(v is not None and from_network(context, v) for v in values):
            found.append(event)
    return found


def _repeated(event: Event, loop: TrainingLoop) -> bool:
    """Whether a number is read several times per step: in a loop that is not the one over micro-batches.

    Not where gradients are off: that is an evaluation, whose figures somebody wants to read. Where it comes with every
    step, as in training on a whole graph, the step is an epoch.
    """
    if event.name in (".cpu", ".numpy"):
        return False  # an array that is needed on the host
    if recorded(event.context) is False:
        return False
    return any(frame is not loop.micro for frame in inner_loops(event.context, loop.frame))


def _line(event: Event, first: Event) -> str:
    """The line of a place; with its file where that is not the file of the finding."""
    line = str(getattr(event.node, "lineno", 0))
    return line if event.script is first.script else f"{event.script.path.rpartition('/')[2]}:{line}"


def _once(waits: list[Event]) -> list[Event]:
    seen: set[int] = set()
    return [e for e in waits if id(e.node) not in seen and not seen.add(id(e.node))]  # type: ignore[func-returns-value]


def _shown(event: Event) -> str:
    return event.name.replace("builtins.", "").lstrip(".") + "() needs a value of the GPU"
